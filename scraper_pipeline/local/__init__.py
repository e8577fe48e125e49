"""Everything on one machine: the processes of `demo` and `dev`, and the demo itself."""
