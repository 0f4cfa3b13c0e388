"""A cluster's objects as a repository: what people wrote of them, in the files where gangplan looks for it."""
