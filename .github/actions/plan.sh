#!/usr/bin/env bash
# Checks the repository and compares it with the base; ends with 1 when the check fails or the change brings what
# FAIL_ON names.
# Set by action.yml: GANGPLAN FOLDER BASE TARGET FAIL_ON COMMENT SARIF TRACE TRACE_OPTIONS REPORTS,
# and GitHub's own variables.
# Outputs: sarif; comparison, a file of Markdown; pages, a folder of report pages. The last two where there are any.
set -euo pipefail

wrong=0
refuse() {
    echo "::error::$1 is '$2'. Fix: write $3"
    wrong=1
}
[ -d "$FOLDER" ] || refuse folder "$FOLDER" "a folder of the repository"
case "$FAIL_ON" in no-plan | error | never-starts | longer-waits) ;; *) refuse fail-on "$FAIL_ON" "no-plan, error, never-starts or longer-waits" ;; esac
case "$COMMENT" in true | false) ;; *) refuse comment "$COMMENT" "true or false" ;; esac
case "$SARIF" in true | false) ;; *) refuse sarif "$SARIF" "true or false" ;; esac
[ -z "$TRACE" ] || [ -f "$TRACE" ] || refuse trace "$TRACE" "a file of the repository"
[ "$wrong" = 0 ] || exit 1

failed=0
"$GANGPLAN" check --repo "$FOLDER" --format github || failed=1
"$GANGPLAN" check --repo "$FOLDER" --format sarif > "$REPORTS/gangplan.sarif" || true
echo "sarif=$REPORTS/gangplan.sarif" >> "$GITHUB_OUTPUT"

# Prints the commit with which GitHub merged the pull request, where that merge is checked out. TARGET may be older.
merged_with() {
    [[ ${GITHUB_REF-} == refs/pull/*/merge ]] && [ "$(git -C "$FOLDER" rev-parse HEAD)" = "$GITHUB_SHA" ] &&
        git -C "$FOLDER" rev-parse --quiet --verify HEAD^2 > /dev/null && git -C "$FOLDER" rev-parse HEAD^1
}

base=$BASE
if [ -z "$base" ] && [ -n "$TARGET" ]; then
    # What others merged meanwhile is not this change's doing.
    base=$(merged_with || git -C "$FOLDER" merge-base "$TARGET" HEAD || true)
    if [ -z "$base" ]; then
        echo "::error::the history between the pull request and its base is not here: check out with fetch-depth 0"
        exit 1
    fi
fi
if [ -n "$base" ]; then
    comparison=$REPORTS/gangplan.md pages=$REPORTS/gangplan-pages
    "$GANGPLAN" diff "$base" --repo "$FOLDER" --fail-on "$FAIL_ON" -o markdown --pages "$pages" > "$comparison" || failed=1
    if [ -n "$TRACE" ]; then
        read -ra options <<< "$TRACE_OPTIONS"
        mkdir -p "$pages"
        "$GANGPLAN" simulate "$TRACE" --repo "$FOLDER" --compare "$base.." "${options[@]}" -o markdown --page "$pages/replay.html" >> "$comparison" || failed=1
    fi
    [ ! -s "$comparison" ] || echo "comparison=$comparison" >> "$GITHUB_OUTPUT"
    [ -z "$(ls -A "$pages" 2>/dev/null)" ] || echo "pages=$pages" >> "$GITHUB_OUTPUT"
fi
exit "$failed"
