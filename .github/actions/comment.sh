#!/usr/bin/env bash
# Writes the comparison into the summary of the run, and as one comment for each folder on the pull request, updated in
# place.
# Set by action.yml: COMPARISON FOLDER ARTIFACT COMMENT PULL_REQUEST REPORTS, and GitHub's own variables. ARTIFACT: the
# address of the report pages, or nothing.
set -euo pipefail

body=$REPORTS/gangplan-comment.md mark=$(head -n 1 "$COMPARISON") heading=$(sed -n 2p "$COMPARISON")
if [ "$FOLDER" != . ]; then
    mark="${mark% -->} of $FOLDER -->" heading="$heading in \`$FOLDER\`"
fi
{
    printf '%s\n%s\n\n' "$mark" "$heading" # the comment is found by its mark
    [ -z "$ARTIFACT" ] || printf '[Before and after as a page](%s): download, unpack, open in a browser.\n\n' "$ARTIFACT"
    tail -n +4 "$COMPARISON"
} > "$body"
cat "$body" >> "$GITHUB_STEP_SUMMARY"
[ "$COMMENT" = true ] && [ -n "$PULL_REQUEST" ] || exit 0

comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments
# shellcheck disable=SC2016  # $mark is jq's
found=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id" | head -n 1)
if [ -n "$found" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$found" --field "body=@$body"
else
    gh api --silent --method POST "$comments" --field "body=@$body"
fi
