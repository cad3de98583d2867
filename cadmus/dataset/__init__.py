"""True programs on disk: shards, splits that cannot leak, the manifest, the reader."""
