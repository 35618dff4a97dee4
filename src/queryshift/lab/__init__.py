"""The laboratory: corruptions, the embedded world, datasets, evaluation.

The product never imports it.

Its rooms, in import order: `corruptions`, `tangram`, `datasets`, `evaluation`, `figures`, `demo`,
`own_traffic`, `tuning`. All of the product may be imported. Needs the extra `lab`.
"""
