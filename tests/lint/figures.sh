#!/bin/sh
# figures.sh STEPTUNE - fails if the documents' figures are not those of ci/figures.
exec "$(dirname "$0")/../../ci/figures" --check "$1"
