#!/bin/sh
# git calls this when a server asks for credentials; the answer lies in a mounted secret, so it is never in an argument or a log.
case "$1" in
    Username*) exec cat "$GANGPLAN_GIT_AUTH/username" ;;
    *) exec cat "$GANGPLAN_GIT_AUTH/password" ;;
esac
