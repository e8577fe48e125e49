"""Small projects downstream of the pipeline, to be copied from."""
