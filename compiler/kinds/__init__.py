"""Kinds of objects that gangplan reads.

A new kind is a new module with a `KIND` (or `KINDS`, where a family shares one), named in `kinds.toml`. A job kind
needs no more than a table (`compiler.kinds.common.job_kinds`).

A kind's `specs` turns a document, validated by the kind's pydantic model, into specs (`compiler.specs`), or into drafts
(`compiler.specs.drafts`) that other documents complete. Rules beyond the shape are checks (`compiler.checks`).
"""
