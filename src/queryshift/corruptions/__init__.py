"""Query shifts over four modalities."""
