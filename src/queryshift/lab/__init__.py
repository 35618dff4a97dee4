"""The laboratory: corruptions, the embedded world, datasets, evaluation.

The product never imports it.

Its rooms, in import order: `corruptions`, `tangram`, `datasets`, `evaluation`, `tuning`, `figures`,
`demo`, `own_traffic`. All of the product may be imported. Needs the extra `lab`.
"""
