/* processor.c: the parts of the runtime that depend on the CPU's architecture. Part of runtime.c.
 *
 * For each architecture: the check of CPU features, by the names in
 * tvmconv/machines/architectures.py, the length of scalable vectors, and the waiting instruction. */

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Which registers the operating system must save for a feature to be usable. */
enum { ANY_REGISTERS, YMM_REGISTERS, ZMM_REGISTERS, TILE_REGISTERS };
enum { EAX, EBX, ECX, EDX };

typedef struct {
    const char *name;
    uint32_t leaf, subleaf;
    int result, bit, registers;
} cpuid_bit;

static const cpuid_bit known_features[] = {
    {"sse", 1, 0, EDX, 25, ANY_REGISTERS},
    {"sse2", 1, 0, EDX, 26, ANY_REGISTERS},
    {"pni", 1, 0, ECX, 0, ANY_REGISTERS},
    {"ssse3", 1, 0, ECX, 9, ANY_REGISTERS},
    {"fma", 1, 0, ECX, 12, YMM_REGISTERS},
    {"sse4_1", 1, 0, ECX, 19, ANY_REGISTERS},
    {"sse4_2", 1, 0, ECX, 20, ANY_REGISTERS},
    {"movbe", 1, 0, ECX, 22, ANY_REGISTERS},
    {"popcnt", 1, 0, ECX, 23, ANY_REGISTERS},
    {"avx", 1, 0, ECX, 28, YMM_REGISTERS},
    {"f16c", 1, 0, ECX, 29, YMM_REGISTERS},
    {"abm", 0x80000001, 0, ECX, 5, ANY_REGISTERS},
    {"sse4a", 0x80000001, 0, ECX, 6, ANY_REGISTERS},
    {"xop", 0x80000001, 0, ECX, 11, YMM_REGISTERS},
    {"fma4", 0x80000001, 0, ECX, 16, YMM_REGISTERS},
    {"tbm", 0x80000001, 0, ECX, 21, ANY_REGISTERS},
    {"bmi1", 7, 0, EBX, 3, ANY_REGISTERS},
    {"avx2", 7, 0, EBX, 5, YMM_REGISTERS},
    {"bmi2", 7, 0, EBX, 8, ANY_REGISTERS},
    {"avx512f", 7, 0, EBX, 16, ZMM_REGISTERS},
    {"avx512dq", 7, 0, EBX, 17, ZMM_REGISTERS},
    {"avx512ifma", 7, 0, EBX, 21, ZMM_REGISTERS},
    {"avx512cd", 7, 0, EBX, 28, ZMM_REGISTERS},
    {"avx512bw", 7, 0, EBX, 30, ZMM_REGISTERS},
    {"avx512vl", 7, 0, EBX, 31, ZMM_REGISTERS},
    {"avx512vbmi", 7, 0, ECX, 1, ZMM_REGISTERS},
    {"avx512_vbmi2", 7, 0, ECX, 6, ZMM_REGISTERS},
    {"gfni", 7, 0, ECX, 8, ANY_REGISTERS},
    {"avx512_vnni", 7, 0, ECX, 11, ZMM_REGISTERS},
    {"avx512_bitalg", 7, 0, ECX, 12, ZMM_REGISTERS},
    {"avx512_vpopcntdq", 7, 0, ECX, 14, ZMM_REGISTERS},
    {"avx512_vp2intersect", 7, 0, EDX, 8, ZMM_REGISTERS},
    {"avx512_fp16", 7, 0, EDX, 23, ZMM_REGISTERS},
    {"amx_tile", 7, 0, EDX, 24, TILE_REGISTERS},
    {"amx_int8", 7, 0, EDX, 25, TILE_REGISTERS},
    {"avx_vnni", 7, 1, EAX, 4, YMM_REGISTERS},
    {"avx512_bf16", 7, 1, EAX, 5, ZMM_REGISTERS},
    {"avx_ifma", 7, 1, EAX, 23, YMM_REGISTERS},
};

/* Whether the operating system lets the process use tiles. Linux requires a request, and its grant
 * holds for all threads. */
static int tiles_permitted(void) {
#ifdef __linux__
    const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return 0;
#endif
}

static int registers_saved(int registers) {
    static const uint32_t states[] = {
        [YMM_REGISTERS] = 0x06, [ZMM_REGISTERS] = 0xe6, [TILE_REGISTERS] = 0x600e6};
    uint32_t a, b, c, d, low, high, wanted = states[registers];
    if (registers == ANY_REGISTERS) return 1;
    __cpuid(1, a, b, c, d);
    if (!(c & 1u << 27)) return 0; /* without OSXSAVE xgetbv is illegal */
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return (low & wanted) == wanted && (registers != TILE_REGISTERS || tiles_permitted());
}

static int has_feature(const char *name) {
    for (size_t i = 0; i < sizeof known_features / sizeof *known_features; ++i) {
        const cpuid_bit *bit = &known_features[i];
        uint32_t result[4];
        if (strcmp(name, bit->name)) continue;
        return __get_cpuid_count(bit->leaf, 0, &result[EAX], &result[EBX], &result[ECX],
                                 &result[EDX]) &&
               (bit->subleaf == 0 || result[EAX] >= bit->subleaf) &&
               __get_cpuid_count(bit->leaf, bit->subleaf, &result[EAX], &result[EBX], &result[ECX],
                                 &result[EDX]) &&
               (result[bit->result] >> bit->bit & 1) && registers_saved(bit->registers);
    }
    return 0; /* newer than this file: then it is newer than the code that this file is built with */
}

static int vector_bits(void) { return 0; }

/* Called between two reads of a polled value. */
static void relax(void) { __builtin_ia32_pause(); }

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>

/* In the order of the bits of AT_HWCAP and AT_HWCAP2. */
static const char *const known_features[] = {
    "fp",      "asimd",    "evtstrm",  "aes",     "pmull",   "sha1",      "sha2",     "crc32",
    "atomics", "fphp",     "asimdhp",  "cpuid",   "asimdrdm", "jscvt",    "fcma",     "lrcpc",
    "dcpop",   "sha3",     "sm3",      "sm4",     "asimddp", "sha512",    "sve",      "asimdfhm",
    "dit",     "uscat",    "ilrcpc",   "flagm",   "ssbs",    "sb",        "paca",     "pacg",
    "dcpodp",  "sve2",     "sveaes",   "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2",
    "frint",   "svei8mm",  "svef32mm", "svef64mm", "svebf16", "i8mm",     "bf16",     "dgh",
};

static int has_feature(const char *name) {
    for (unsigned i = 0; i < sizeof known_features / sizeof *known_features; ++i)
        if (!strcmp(name, known_features[i]))
            return (int)(getauxval(i < 32 ? AT_HWCAP : AT_HWCAP2) >> (i % 32) & 1);
    return 0;
}

static int vector_bits(void) {
    const int get_vector_length = 51; /* PR_SVE_GET_VL, which older headers lack */
    int length = prctl(get_vector_length);
    return length < 0 ? 0 : (length & 0xffff) * 8;
}

static void relax(void) { __asm__ volatile("yield" ::: "memory"); }

#elif defined(__riscv) && __riscv_xlen == 64 && defined(__linux__)
#include <sys/auxv.h>

/* Extensions of one letter, and minimum lengths of vectors: "zvl256b". */
static int has_feature(const char *name) {
    unsigned long letters = getauxval(AT_HWCAP), bytes;
    int bits = 0;
    if (name[0] >= 'a' && name[0] <= 'z' && !name[1]) return (int)(letters >> (name[0] - 'a') & 1);
    if (sscanf(name, "zvl%db", &bits) != 1 || !(letters >> ('v' - 'a') & 1)) return 0;
    __asm__ volatile("csrr %0, 0xc22" : "=r"(bytes)); /* vlenb */
    return (unsigned long)bits <= 8 * bytes;
}

static int vector_bits(void) { return 0; }

/* The instruction `pause`, which older assemblers lack. */
static void relax(void) { __asm__ volatile(".word 0x0100000f" ::: "memory"); }

#else
/* The operating system's loader has checked the architecture; there is no more to ask. */
static int has_feature(const char *name) {
    (void)name;
    return 1;
}

static int vector_bits(void) { return 0; }

static void relax(void) {}
#endif
