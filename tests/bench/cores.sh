# Sourced: on_broker_cores and on_load_core run a command on cores of its own, so that what is measured
# is the broker and not two programs taking turns on one core. With one core both share it.
cores=$(nproc)
on_broker_cores() { if [ "$cores" -gt 1 ]; then exec taskset -c "0-$((cores - 2))" "$@"; else exec "$@"; fi; }
on_load_core() { if [ "$cores" -gt 1 ]; then taskset -c "$((cores - 1))" "$@"; else "$@"; fi; }
