#!/bin/sh
# git calls this when a server asks for credentials; the answer lies in a mounted secret, so it is never in an argument or a log.
# A token needs no user name, but git asks for one.
case "$1" in
    Username*) if [ -f "$GANGPLAN_GIT_AUTH/username" ]; then exec cat "$GANGPLAN_GIT_AUTH/username"; else echo git; fi ;;
    *) exec cat "$GANGPLAN_GIT_AUTH/password" ;;
esac
