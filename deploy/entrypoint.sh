#!/bin/sh
# Runs a command with the secrets of this container as variables: each file of /run/secrets that is named like one.
# So they are in no image, no compose file and no `docker inspect`.
set -eu
for file in /run/secrets/[A-Z]*; do
    name=${file##*/}
    case $name in
        *[!A-Z0-9_]*) continue ;;
    esac
    export "$name=$(cat "$file")"
done
exec "$@"
