"""Long checks of Cadmus itself: the fast VM against the reference VM, killed trainings."""
