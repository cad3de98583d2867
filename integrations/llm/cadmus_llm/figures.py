"""Figures of the answers, next to the results of a Cadmus model."""

from cadmus.experiments.experiment import Figure

FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            "output_tokens",
            "Accuracy on the comparison against the limit on output tokens of a large language model; Cadmus "
            "uses one token. The dashed line is the best baseline of Cadmus, which sees training programs.",
            sources=("grid", "llm"),
            module="cadmus_llm.output_tokens",
        ),
        Figure(
            "llm_grid",
            "Accuracy of Cadmus and of large language models by the compared values X and Y, at the largest "
            "limit on output tokens. The dashed square is the training range of Cadmus.",
            sources=("grid", "llm"),
            module="cadmus_llm.llm_grid",
        ),
    )
}
