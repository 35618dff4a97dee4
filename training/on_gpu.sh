#!/bin/sh
# Train models at once on one GPU and put weights and logs into a folder:
#   sh training/on_gpu.sh FOLDER "scenes clips edits" [options of training.train]
out=$1; tasks=$2; shift 2
export PYTHONPATH=src PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out/logs"
for task in $tasks; do
  python3 -m training.train $task --weights "$out" --logs "$out/logs" "$@" > "$out/logs/$task.txt" 2>&1 &
done
wait
tail -n 20 "$out"/logs/*.txt
