/* libvgpu.so as far as its sources say what it answers, for machines without the real one: it limits
 * the memory of each card by its environment, and writes the region that its monitors read.
 * Sources: HAMi-core 8f3a89c src/multiprocess/multiprocess_memory_limit.{c,h}, src/cuda/device.c,
 * src/libvgpu.c; 8c32de6 src/utils.c (the lock). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CARDS = 16, SIZE = 2008952, ATTEMPTS = 3, OUT_OF_MEMORY = 2 };
static const char *const LOCK = "/tmp/vgpulock/lock";
struct region {
    int32_t magic;
    uint32_t major, minor;
    char own[44];
    uint64_t cards;
    char uuids[CARDS][96];
    uint64_t limits[CARDS], compute[CARDS];
};

static struct region *region;
static uint64_t used[CARDS];
static int current;

static void *driver(const char *name) {
    static void *(*find)(void *, const char *);
    static void *cuda;
    if (!find)
        find = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!cuda)
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
    return find(cuda, name);
}
#define DRIVER(name, ...) ((int (*)())driver(name))(__VA_ARGS__)

static uint64_t limit(const char *name, int card) {
    char numbered[64], *end;
    snprintf(numbered, sizeof numbered, "%s_%d", name, card);
    const char *text = getenv(numbered) ? getenv(numbered) : getenv(name);
    uint64_t number = text ? strtoull(text, &end, 0) : 0;
    return text && *end == 'm' ? number << 20 : number;
}

static void begin(void) {
    int lock = -1;
    if (region)
        return;
    for (int attempt = 0; attempt < ATTEMPTS && lock < 0; attempt++)
        if ((lock = open(LOCK, O_CREAT | O_EXCL, 0666)) < 0)
            fprintf(stderr, "unified_lock locked, waiting: %s\n", strerror(errno));
    int file = open(getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE"), O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, SIZE + 1))
        exit(1);
    region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    *region = (struct region){.magic = 19920718, .major = 1, .minor = 2};
    DRIVER("nvmlInit_v2");
    unsigned int count = 0;
    DRIVER("nvmlDeviceGetCount_v2", &count);
    region->cards = count;
    for (unsigned int c = 0; c < count; c++) {
        void *handle;
        DRIVER("nvmlDeviceGetHandleByIndex_v2", c, &handle);
        DRIVER("nvmlDeviceGetUUID", handle, region->uuids[c], 96);
        region->limits[c] = limit("CUDA_DEVICE_MEMORY_LIMIT", c);
        region->compute[c] = limit("CUDA_DEVICE_SM_LIMIT", c);
    }
    if (lock >= 0)
        unlink(LOCK);
}

/* The limit is the answer, also where there is none. */
int cuDeviceTotalMem_v2(uint64_t *bytes, int device) {
    *bytes = region->limits[device];
    return 0;
}

int cuCtxSetCurrent(void *context) {
    int code = DRIVER("cuCtxSetCurrent", context);
    DRIVER("cuCtxGetDevice", &current);
    return code;
}

int cuMemGetInfo_v2(uint64_t *free, uint64_t *total) {
    int code = DRIVER("cuMemGetInfo_v2", free, total);
    if (region->limits[current]) {
        *total = region->limits[current];
        *free = *total - used[current];
    }
    return code;
}

int cuMemAlloc_v2(uint64_t *place, uint64_t size) {
    if (region->limits[current] && used[current] + size >= region->limits[current])
        return OUT_OF_MEMORY;
    used[current] += size;
    return DRIVER("cuMemAlloc_v2", place, size);
}

void *dlsym(void *handle, const char *name) {
    static const struct { const char *name; void *function; } own[] = {
        {"cuDeviceTotalMem_v2", cuDeviceTotalMem_v2}, {"cuCtxSetCurrent", cuCtxSetCurrent},
        {"cuMemGetInfo_v2", cuMemGetInfo_v2}, {"cuMemAlloc_v2", cuMemAlloc_v2},
    };
    if (!strncmp(name, "cu", 2))
        begin();
    for (size_t f = 0; f < sizeof own / sizeof *own; f++)
        if (!strcmp(name, own[f].name))
            return own[f].function;
    return ((void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"))(handle, name);
}
