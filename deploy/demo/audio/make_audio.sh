#!/bin/sh
# Makes the caller's lines anew from lines.tsv. Needs espeak-ng and sox.
#
# Telephone band, 8 kHz mono 16 bit, same level, no silence at the ends: the caller counts an
# utterance from its first sample to its last.
set -eu
cd "$(dirname "$0")"
while IFS="$(printf '\t')" read -r name text; do
    espeak-ng -v en-gb+f3 -s 165 -p 45 -w "$name.raw.wav" "$text"
    sox "$name.raw.wav" -r 8000 -c 1 -b 16 -D "$name.wav" \
        highpass 200 lowpass 3400 norm -4 \
        silence 1 0.01 0.5% reverse silence 1 0.01 0.5% reverse
    rm "$name.raw.wav"
done < lines.tsv
