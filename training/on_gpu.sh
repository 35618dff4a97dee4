#!/bin/sh
# Train every model at once on one GPU, measure each, and put weights and logs into the folder $1.
out=$1; shift
export PYTHONPATH=src PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out/logs"
for task in scenes clips edits; do
  (python3 -m training.train $task --logs "$out/logs" "$@" &&
    OMP_NUM_THREADS=5 python3 -m training.measure --tasks $task) > "$out/logs/$task.txt" 2>&1 &
done
wait
cp src/queryshift/models/weights/*.safetensors "$out"
tail -n 20 "$out"/logs/*.txt
