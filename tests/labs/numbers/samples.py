"""Runs and bad settings of numbers."""

REFUSED = {
    "must be less than 1, got 1": ("train.label_only.fraction", 1),
    "label_only.fraction: needs a state_weight above 0": (
        "train",
        {"steps": 2, "label_only": {"fraction": 0.1}},
    ),
    "label_only.fraction: leaves no other program of 4; lower it": (
        "train",
        {"steps": 2, "batch_size": 4, "state_weight": 1, "label_only": {"fraction": 0.9}},
    ),
    "interchange_training.fraction: needs state_labels.second and state_weight above 0": (
        "train.interchange_training",
        {"fraction": 0.5},
    ),
}
RUNS = {
    "interchange": {
        "train": {
            "state_weight": 1.0,
            "state_labels": {"top_number": 1.0, "second": 1.0, "difference": 1.0},
            "label_only": {"fraction": 0.25},
            "interchange_training": {"fraction": 1.0},
        }
    }
}
