"""One thin module per DVC stage: read params, call, write. Nothing imports these."""
