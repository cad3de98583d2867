"""The inputs that are damaged, and the commands that read them."""

from typing import NamedTuple

from tests.inputs.workspace import EXPERIMENTS, TRAIN

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_ENDPOINT": "http://127.0.0.1:9",
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",
    "OPENAI_API_KEY": "sk-none",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}
"""Nothing leaves the machine, and a fork finds no threads missing."""


class Command(NamedTuple):
    """A command line.

    Attributes:
        line: words separated by blanks.
        outputs: files and directories that it may write.
        stdin: file of its standard input.
        resumable: it keeps what it wrote before it fails, and prints more than the error.
        argument_mutants: its words may be mutated; not those of commands that could then work for minutes.
    """

    line: str
    outputs: tuple[str, ...] = ()
    stdin: str | None = None
    resumable: bool = False
    argument_mutants: bool = True


class Target(NamedTuple):
    """A kind of input.

    Attributes:
        inputs: patterns of the files to damage.
        commands: that read all of them.
        needs: further files and directories that the commands read.
        names: further words that name the input in an error.
    """

    inputs: tuple[str, ...]
    commands: tuple[Command, ...]
    needs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def _evaluate(name: str, subject: str, dataset: bool = False) -> Command:
    line = f"evaluate {name} --{subject} --output out.parquet" + " --dataset dataset" * dataset
    return Command(f"{line} --config config.yaml", ("out.parquet",))


def _figure(name: str, *results: str) -> Command:
    return Command(
        f"figure {name} --output drawn" + "".join(f" --results {path}" for path in results), ("drawn",)
    )


_LLM = "--config config.yaml --table llms.yaml --directory llm"
_EXPLAIN = Command("complete 34+ --model model --json")
_COMPLETE = Command("complete --json - --model model", stdin="programs.txt")
_REPL = Command("repl --model model", stdin="session.txt")
_SERVE = Command("serve --model model --port 0")
_EXPLORE = Command("explore --model model --port 0 --no-browser")
_PUSH = Command("push model --to a/b --snapshots finished/snapshots")
_CARD = Command(
    "card model --completions experiments/completions.parquet --metrics finished/metrics.jsonl "
    "--output card.md",
    ("card.md",),
)
_REPORT = Command("report dataset", ("dataset/report", "dataset/report.md", "dataset/README.md"))
_MANIFEST = Command("manifest dataset --config config.yaml", ("dataset/manifest.json",))
_TRAIN = Command(TRAIN, ("training", "trained", "checkpoints"), resumable=True, argument_mutants=False)
_SAVED = (
    Command("complete 34+ --model saved"),
    Command("evaluate grid --model saved --config config.yaml --output out.parquet", ("out.parquet",)),
    Command("push saved --to a/b"),
)

TARGETS = {
    "config": Target(
        ("config.yaml",),
        (
            Command("config show config.yaml"),
            Command("config show config.yaml --json"),
            Command("plan config.yaml"),
            Command("plan config.yaml --json"),
            Command("sample equality -n 3 --json --config config.yaml"),
            Command("sample complete_algorithm -n 2 --split test --config config.yaml"),
            Command("states subroutines -n 3 --config config.yaml --output out.parquet", ("out.parquet",)),
            Command("shard --config config.yaml new --template equality --split test --number 0", ("new",)),
            _MANIFEST,
            _evaluate("grid", "model model"),
        ),
        ("dataset", "model"),
        ("the config says",),
    ),
    "study config": Target(
        ("study.yaml",),
        (
            Command("config show study.yaml"),
            Command("plan study.yaml"),
            Command("study runs study.yaml --results studies"),
            Command("study collect study.yaml --results studies --output out.parquet", ("out.parquet",)),
        ),
        ("config.yaml", "studies"),
    ),
    "plan table": Target(
        ("devices.yaml",),
        tuple(
            Command(f"plan config.yaml --devices devices.yaml{more}")
            for more in ("", " --json", " --gpu H200")
        ),
        ("config.yaml",),
    ),
    "manifest": Target(
        ("dataset/manifest.json",),
        (
            _REPORT,
            Command("push dataset --to a/b"),
            _evaluate("completions", "model model", dataset=True),
            _TRAIN,
        ),
        ("dataset", "model", "config.yaml", "training"),
    ),
    "shard": Target(
        ("dataset/test/*.parquet", "dataset/train/*.parquet"),
        (_REPORT, _MANIFEST, _evaluate("completions", "model model", dataset=True)),
        ("dataset", "model", "config.yaml"),
    ),
    "model": Target(
        ("model/meta.json", "model/model.safetensors"),
        (
            _EXPLAIN,
            _COMPLETE,
            _REPL,
            _SERVE,
            _EXPLORE,
            _PUSH,
            _CARD,
            _evaluate("grid", "model model"),
            Command("evaluate lens --model model --output out.parquet --programs 20", ("out.parquet",)),
        ),
        ("model", "finished", "experiments", "config.yaml"),
    ),
    "saved by transformers": Target(
        ("saved/config.json", "saved/generation_config.json", "saved/model.safetensors"),
        _SAVED,
        ("saved", "config.yaml"),
    ),
    "snapshots": Target(
        ("finished/snapshots/*/meta.json", "finished/snapshots/*/model.safetensors"),
        (_evaluate("curve", "snapshots finished/snapshots", dataset=True), _PUSH),
        ("finished", "dataset", "config.yaml", "model"),
    ),
    "checkpoint": Target(
        ("checkpoints/*/meta.json", "checkpoints/*/state.safetensors", "training/metrics.partial.jsonl"),
        (_TRAIN,),
        ("checkpoints", "training", "dataset", "config.yaml"),
    ),
    "completions": Target(
        ("experiments/completions.parquet",),
        (
            *(
                _figure(name, "experiments/completions.parquet")
                for name in (
                    "table3_accuracy",
                    "accuracy_by_length",
                    "accuracy_by_examples",
                    "near_duplicates",
                    "failures",
                )
            ),
            _CARD,
        ),
        ("model", "finished"),
    ),
    "results": Target(
        tuple(f"experiments/{name}.parquet" for name in EXPERIMENTS[1:]),
        (
            _figure("loss_by_template", "experiments/loss.parquet"),
            _figure("pass_at_k", "experiments/pass_at_k.parquet"),
            _figure("accuracy_by_compute", "experiments/curve.parquet"),
            _figure("comparison_grid", "experiments/grid.parquet"),
            _figure("grid_regions", "experiments/grid.parquet"),
            _figure("accuracy_by_distance", "experiments/grid.parquet"),
            _figure("logit_lens", "experiments/lens.parquet"),
            _figure("patching", "experiments/patch.parquet"),
            _figure("probe_final_block", "experiments/probe.parquet"),
            _figure("probe_layers", "experiments/probe.parquet"),
        ),
    ),
    "metrics": Target(
        ("finished/metrics.jsonl",),
        (_figure("training_curve", "finished/metrics.jsonl"), _CARD),
        ("model", "experiments"),
    ),
    "graded answers": Target(
        ("llm.parquet",),
        (
            _figure("comparison_grid", "experiments/grid.parquet", "llm.parquet"),
            _figure("output_tokens", "experiments/grid.parquet", "llm.parquet"),
        ),
        ("experiments",),
    ),
    "study runs": Target(
        (
            "studies/_shared/*/training/metrics.jsonl",
            "studies/_shared/*/experiments/*.parquet",
        ),
        (Command("study collect study.yaml --results studies --output out.parquet", ("out.parquet",)),),
        ("study.yaml", "config.yaml", "studies"),
    ),
    "study results": Target(
        ("study.parquet",), (Command("study draw study.parquet --output drawn", ("drawn",)),)
    ),
    "speed record": Target(
        ("record.parquet", "records/docs/results/speedrun.csv"),
        (
            Command(
                "study record record.parquet --change x --root records",
                ("records/docs/speedrun.md", "records/docs/results/speedrun.csv"),
            ),
        ),
        ("records",),
    ),
    "finished run": Target(
        (
            "results/demo/model/meta.json",
            "results/demo/experiments/completions.parquet",
            "results/demo/tables/table3_accuracy.md",
            "checkout/README.md",
        ),
        (Command("readme results/demo --root checkout", ("checkout",)),),
        ("results", "checkout"),
    ),
    "llm table": Target(
        ("llms.yaml",),
        (Command(f"llm prepare {_LLM}", ("llm/requests",)), Command(f"llm estimate {_LLM}")),
        ("config.yaml", "llm"),
        ("another config, model table or prompt",),
    ),
    "llm replies": Target(
        (
            "llm/requests/demo.jsonl",
            "llm/requests/index.parquet",
            "llm/replies/demo.jsonl",
            "replies.jsonl",
        ),
        (
            Command(f"llm estimate {_LLM} --json"),
            Command(f"llm collect {_LLM} replies.jsonl", ("llm/replies",)),
            Command(f"llm score {_LLM} --output out.parquet", ("out.parquet",)),
        ),
        ("config.yaml", "llms.yaml", "llm"),
    ),
    "standard input": Target(
        ("programs.txt", "session.txt"),
        (
            Command("run -", stdin="programs.txt"),
            Command("run --json -", stdin="programs.txt"),
            Command("repl --no-model", stdin="session.txt"),
            _COMPLETE,
            _REPL,
        ),
        ("model",),
    ),
}
"""By name; in the target ``arguments``, the command line of any command is mutated instead."""

ARGUMENTS = "arguments"
OTHER = (
    Command("run 34+7= --trace"),
    Command("run u1b2b --json"),
    Command("isa --json"),
    Command("figure table2_instructions --output drawn", ("drawn",)),
    Command("study runs study.yaml"),
    Command("llm prompts"),
)
"""More commands whose arguments are mutated."""
