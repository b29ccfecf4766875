#!/bin/sh
# Makes the recorded prompts from lines.txt: 8 kHz, mono, 16 bit, FLAC.
# Needs the Debian packages espeak-ng and sox (libsox-fmt-base has FLAC).
set -eu
cd "$(dirname "$0")"
grep -v '^#' lines.txt | while IFS='|' read -r name voice words; do
    name=$(echo "$name" | tr -d ' ')
    voice=$(echo "$voice" | tr -d ' ')
    [ -n "$name" ] || continue
    # -D: no dither and -R: fixed random numbers, so that the same line gives the same file
    espeak-ng -v "$voice" -s 160 --stdout "$words" < /dev/null |
        sox -D -R -t wav - -r 8000 -c 1 -b 16 "$name.flac" gain -n -3 silence 1 0.02 1%
    echo "$name.flac"
done
