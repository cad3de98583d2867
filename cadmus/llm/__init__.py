"""Large language models on the programs of the comparison grid, in normal and in alternate symbols."""
