"""Real models and real data: what makes the models, the results and their page."""
