"""Encoders and matchers: frozen modules that run with any values of their norm parameters.

Imports: `support`, `media`. Start with `encoder.py`, then `frozen_module.py`.
"""
