"""Questions about programs and the grading of answers by execution.

Four rooms: the questions and their grades are here; ``baselines`` answer without understanding; ``prompts``
are drawn for experiments, or written for language models; ``statistics`` summarize results.
"""
