"""Parts that several kinds share: metadata, pod templates, pod rules."""
