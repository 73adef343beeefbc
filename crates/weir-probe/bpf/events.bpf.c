#include "kernel.h"
char LICENSE[] SEC("license") = "Dual MIT/GPL";
