"""The ``evaluate`` and ``llm`` sections."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from cadmus.config.fields import Above0, NonNegative, Positive, Section, check_distinct

Tokens = Annotated[Positive, Field(le=1_000_000)]


class Evaluate(Section):
    """Experiments with the trained model, each with a section of its own."""

    split: Literal["validation", "test", "ood"] = "test"
    """split whose programs are completed"""
    batch_size: Positive = 512
    """programs completed at a time"""

    if TYPE_CHECKING:
        # The sections of the experiments, see cadmus.config.loading.config_model.
        def __getattr__(self, name: str) -> Any: ...


class Llm(Section):
    """Large language models on programs of the comparison grid, in the training range.

    Requests are sent only if `models` names a model and OPENAI_API_KEY is set; see docs/llm.md.
    """

    models: Annotated[list[str], AfterValidator(check_distinct)] = []
    """names of models in config/tables/llms.yaml"""
    symbols: Annotated[
        list[Literal["normal", "alternate"]], Field(min_length=1), AfterValidator(check_distinct)
    ] = ["normal", "alternate"]
    """symbol sets of the programs"""
    max_output_tokens: Annotated[list[Tokens], Field(min_length=1), AfterValidator(check_distinct)] = [
        256,
        512,
        1024,
        2048,
        4096,
        8192,
    ]
    """output token limits, including reasoning; one point of the figure each"""
    programs_per_pair: Positive = 1
    """programs per pair of values"""
    grid_max_output_tokens: Tokens = 2048
    """output token limit in the comparison grid"""
    grid_programs_per_pair: Positive = 1
    """programs per pair of values in the comparison grid"""
    max_cost_usd: NonNegative = 5.0
    """cost limit of the run in USD; requests that could exceed it are not sent"""
    concurrency: Annotated[Positive, Field(le=1_000)] = 32
    """concurrent requests; does not apply to batches"""
    requests_per_minute: Above0 | None = None
    """rate limit; none when null; does not apply to batches"""
