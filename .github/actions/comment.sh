#!/usr/bin/env bash
# Writes the comparison into the summary of the run, and as one comment on the pull request, updated in place.
# Set by action.yml: COMPARISON ARTIFACT COMMENT PULL_REQUEST REPORTS, and GitHub's own variables. ARTIFACT: the address of
# the report pages, or nothing.
set -euo pipefail

body=$REPORTS/gangplan-comment.md
{
    head -n 3 "$COMPARISON" # the mark by which the comment is found, and the heading
    [ -z "$ARTIFACT" ] || printf '[Before and after as a page](%s): download, unpack, open in a browser.\n\n' "$ARTIFACT"
    tail -n +4 "$COMPARISON"
} > "$body"
cat "$body" >> "$GITHUB_STEP_SUMMARY"
[ "$COMMENT" = true ] && [ -n "$PULL_REQUEST" ] || exit 0

comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments
mark=$(head -n 1 "$body")
# shellcheck disable=SC2016  # $mark is jq's
found=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id" | head -n 1)
if [ -n "$found" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$found" --field "body=@$body"
else
    gh api --silent --method POST "$comments" --field "body=@$body"
fi
