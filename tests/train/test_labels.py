"""Labels for state supervision."""

from cadmus.checks import kills
from cadmus.programs import Programs
from cadmus.train.labels import LARGEST, STATE_CLASSES, state_labels
from cadmus.vm.reference import Number, Sequence, run


def label(prefix: str) -> int:
    """Return the label by the reference VM."""
    outputs = run(prefix).outputs
    if not outputs or outputs[-1] is None:
        return 0
    top = outputs[-1]
    if isinstance(top, Sequence):
        return 1
    assert isinstance(top, Number)
    return 3 + LARGEST + top.value if abs(top.value) <= LARGEST else 2


def test_labels_by_hand() -> None:
    programs = Programs.from_strings(["94*", "u3b", "+", "t*t\\9*;f"])
    assert state_labels(programs)[:3].tolist() == [52, 47, 79]
    assert state_labels(programs)[3:6].tolist() == [1, 46, 1]
    assert state_labels(programs)[6] == 0
    assert LARGEST == 40


def test_labels_are_what_every_prefix_leaves() -> None:
    texts = kills.random_programs(300, 1, 14).to_strings()
    # A definition after its call changes what earlier instructions leave.
    texts += ["8f2=\\3-E2>R;", "u1b2b3bf!u1bf\\L2>;", "99*9*", "\\41-*;9f55*2+="]
    found = state_labels(Programs.from_strings(texts)).tolist()
    assert found == [label(text[: k + 1]) for text in texts for k in range(len(text))]
    assert set(found) <= set(range(STATE_CLASSES))
