/* What a program of a container sees: a line for each card, by CUDA's numbers. It looks the functions
 * up as CUDA's own runtime does. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long u64;

static int call(const char *name, u64 first, u64 second) {
    static void *cuda;
    if (!cuda)
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*function)(u64, u64) = cuda ? (int (*)(u64, u64))dlsym(cuda, name) : NULL;
    if (!function) {
        printf("no %s\n", name);
        exit(1);
    }
    return function(first, second);
}
#define CALL(name, first, second) call(name, (u64)(first), (u64)(second))

int main(void) {
    int count = 0;
    if (CALL("cuInit", 0, 0) || CALL("cuDeviceGetCount", &count, 0))
        return 1;
    for (int d = 0; d < count; d++) {
        unsigned char uuid[16];
        void *context;
        u64 total = 0, free = 0, all = 0, place;
        CALL("cuDeviceGetUuid_v2", uuid, d);
        CALL("cuDeviceTotalMem_v2", &total, d);
        CALL("cuDevicePrimaryCtxRetain", &context, d);
        CALL("cuCtxSetCurrent", context, 0);
        CALL("cuMemGetInfo_v2", &free, &all);
        int half = CALL("cuMemAlloc_v2", &place, total / 2);
        int more = CALL("cuMemAlloc_v2", &place, total / 2);
        printf("card %d %02x%02x%02x%02x %llu %llu %s %s\n", d, uuid[0], uuid[1], uuid[2], uuid[3],
               total >> 20, all >> 20, half ? "refused" : "given", more ? "refused" : "given");
    }
    return 0;
}
