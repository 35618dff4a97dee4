"""Encoders and matchers: frozen modules that run with any values of their norm parameters.

Imports: `support`, `media`. Start with `encoder.py`. Which parameters adapt is in
`adapted_parameters.py`, how they are overridden in `frozen_module.py`.
"""
