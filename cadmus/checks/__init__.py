"""Long checks of Cadmus itself: compiled VM against reference VM, killed training runs."""
