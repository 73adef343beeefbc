/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The first header of every BPF program. It declares the integer types, the helpers of libbpf, and
 * typed views of kernel memory. The programs of weir-probe and weir-attach include it.
 */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef signed short __s16;
typedef unsigned int __u32;
typedef signed int __s32;
typedef unsigned long long __u64;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;

#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_MMAPABLE = 1 << 10,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/*
 * The loader finds the fields of a structure with this attribute by name, in the type information
 * of the running kernel. Programs therefore do not depend on offsets.
 */
#define FROM_KERNEL __attribute__((preserve_access_index))

/* `object` as a kernel object of this type. Reads are checked: an invalid address reads as zero. */
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;

#endif
