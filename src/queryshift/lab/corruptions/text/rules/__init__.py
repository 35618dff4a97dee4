"""Sentence-level corruptions by rule: offline, English only, unchanged where a rule is unsure."""
