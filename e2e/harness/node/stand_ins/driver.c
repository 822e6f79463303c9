/* libcuda.so.1 and, by a link to it, libnvidia-ml.so.1, without a card. cards.h has the cards in the
 * order of their places on the bus. As under NVIDIA's container toolkit, a process sees those that
 * NVIDIA_VISIBLE_DEVICES names, and all where it is not set. Only its own memory is in use.
 * Results and layouts: cuda.h and nvml.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
struct card { const char *uuid, *name; u64 mib; u32 multiprocessors, bus, minor; };
static const struct card cards[] = {
#include "cards.h"
};
enum { CARDS = sizeof cards / sizeof *cards, MIB = 20 };

static int by_bus[CARDS], visible = -1; /* NVML's number of a visible card -> its place in cards */
static int by_speed[CARDS];             /* the same of CUDA's numbers */
static u64 used[CARDS];                 /* bytes */

static void see(void) {
    const char *list = getenv("NVIDIA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER");
    if (visible >= 0)
        return;
    visible = 0;
    for (int c = 0; c < CARDS; c++)
        if (!list || strstr(list, cards[c].uuid))
            by_speed[visible] = by_bus[visible] = c, visible++;
    /* The fastest first, unless the process says otherwise. */
    for (int i = 1; i < visible && !(order && !strcmp(order, "PCI_BUS_ID")); i++)
        for (int j = i; j && cards[by_speed[j]].multiprocessors >
                                 cards[by_speed[j - 1]].multiprocessors; j--) {
            int swapped = by_speed[j];
            by_speed[j] = by_speed[j - 1];
            by_speed[j - 1] = swapped;
        }
}

/* --- nvml.h ------------------------------------------------------------------------------------ */

enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE };
typedef struct { u64 total, free, used; } memory_t;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { u32 pid; u64 used; } process1_t;
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } process_t;
#define CARD(c, handle) const struct card *c = handle

int nvmlInitWithFlags(u32 flags) { (void)flags; see(); return SUCCESS; }
int nvmlInit_v2(void) { see(); return SUCCESS; }
int nvmlInit(void) { see(); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "the stand-in's error"; }
int nvmlDeviceGetCount_v2(u32 *count) { *count = visible; return SUCCESS; }
int nvmlDeviceGetCount(u32 *count) { return nvmlDeviceGetCount_v2(count); }
int nvmlDeviceGetHandleByIndex_v2(u32 index, const void **handle) {
    if ((int)index >= visible)
        return INVALID_ARGUMENT;
    *handle = &cards[by_bus[index]];
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex(u32 index, const void **handle) {
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, const void **handle) {
    for (int v = 0; v < visible; v++)
        if (!strcmp(uuid, cards[by_bus[v]].uuid))
            return *handle = &cards[by_bus[v]], SUCCESS;
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(const void *handle, u32 *index) {
    for (int v = 0; v < visible; v++)
        if (&cards[by_bus[v]] == handle)
            *index = v;
    return SUCCESS;
}
int nvmlDeviceGetUUID(const void *handle, char *text, u32 size) {
    CARD(card, handle);
    return snprintf(text, size, "%s", card->uuid), SUCCESS;
}
int nvmlDeviceGetName(const void *handle, char *text, u32 size) {
    CARD(card, handle);
    return snprintf(text, size, "%s", card->name), SUCCESS;
}
int nvmlDeviceGetMinorNumber(const void *handle, u32 *minor) {
    CARD(card, handle);
    return *minor = card->minor, SUCCESS;
}
int nvmlDeviceGetMemoryInfo(const void *handle, memory_t *memory) {
    CARD(card, handle);
    memory->total = card->mib << MIB;
    memory->used = used[card - cards];
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(const void *handle, pci_t *pci) {
    CARD(card, handle);
    memset(pci, 0, sizeof *pci);
    pci->bus = card->bus;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", card->bus);
    return SUCCESS;
}
int nvmlDeviceGetMigMode(const void *handle, u32 *now, u32 *later) {
    (void)handle;
    return *now = *later = 0, SUCCESS;
}
static int running(const void *handle, u32 *count, void *found, size_t size) {
    CARD(card, handle);
    u32 room = *count;
    *count = used[card - cards] > 0;
    if (*count > room)
        return INSUFFICIENT_SIZE;
    process_t own = {getpid(), used[card - cards], ~0u, ~0u};
    memcpy(found, &own, *count * size);
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses(const void *handle, u32 *count, void *found) {
    return running(handle, count, found, sizeof(process1_t));
}
int nvmlDeviceGetComputeRunningProcesses_v2(const void *handle, u32 *count, void *found) {
    return running(handle, count, found, sizeof(process_t));
}
int nvmlDeviceGetComputeRunningProcesses_v3(const void *handle, u32 *count, void *found) {
    return running(handle, count, found, sizeof(process_t));
}
int nvmlDeviceGetProcessUtilization(const void *handle, void *samples, u32 *count, u64 since) {
    (void)handle, (void)samples, (void)since;
    return *count = 0, NOT_FOUND;
}

/* --- cuda.h ------------------------------------------------------------------------------------ */

enum { OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE, INVALID_CONTEXT = 201, NOT_FOUND_IN_DRIVER = 500 };
enum { CONTEXT = 256 }; /* MiB */
static u32 retained[CARDS];
static char contexts[CARDS]; /* their addresses are handles */
static int current = -1;
#define DEVICE(d) if (d < 0 || d >= visible) return INVALID_DEVICE

int cuInit(u32 flags) { (void)flags; see(); return visible ? SUCCESS : NO_DEVICE; }
int cuGetExportTable(const void **table, const void *id) {
    (void)table, (void)id;
    return NOT_FOUND_IN_DRIVER;
}
int cuDriverGetVersion(int *version) { return *version = 12080, SUCCESS; }
int cuDeviceGetCount(int *count) { return *count = visible, SUCCESS; }
int cuDeviceGet(int *device, int d) { DEVICE(d); return *device = d, SUCCESS; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int d) {
    DEVICE(d);
    const char *digits = cards[by_speed[d]].uuid + strlen("GPU-");
    for (int b = 0; b < 16; b++, digits += 2) {
        digits += *digits == '-';
        sscanf(digits, "%2hhx", &uuid[b]);
    }
    return SUCCESS;
}
int cuDeviceGetUuid(unsigned char *uuid, int d) { return cuDeviceGetUuid_v2(uuid, d); }
int cuDeviceTotalMem_v2(u64 *bytes, int d) {
    DEVICE(d);
    return *bytes = cards[by_speed[d]].mib << MIB, SUCCESS;
}
int cuDeviceGetAttribute(int *value, int attribute, int d) {
    enum { MULTIPROCESSORS = 16, THREADS_OF_ONE = 39 };
    DEVICE(d);
    *value = attribute == MULTIPROCESSORS  ? (int)cards[by_speed[d]].multiprocessors
             : attribute == THREADS_OF_ONE ? 2048
                                           : 0;
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **context, int d) {
    DEVICE(d);
    if (!retained[d]++)
        used[by_speed[d]] += (u64)CONTEXT << MIB;
    *context = &contexts[d];
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int d) {
    DEVICE(d);
    if (retained[d] && !--retained[d])
        used[by_speed[d]] -= (u64)CONTEXT << MIB;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease(int d) { return cuDevicePrimaryCtxRelease_v2(d); }
int cuCtxSetCurrent(void *context) { return current = (int)((char *)context - contexts), SUCCESS; }
int cuCtxGetCurrent(void **context) {
    *context = current < 0 ? NULL : &contexts[current];
    return SUCCESS;
}
int cuCtxGetDevice(int *d) { return *d = current, current < 0 ? INVALID_CONTEXT : SUCCESS; }
int cuMemGetInfo_v2(u64 *free, u64 *total) {
    int code = cuDeviceTotalMem_v2(total, current);
    if (!code)
        *free = *total - used[by_speed[current]];
    return code;
}
int cuMemAlloc_v2(u64 *place, u64 size) {
    static u64 next = 0x7f0000000000;
    u64 free, total;
    int code = cuMemGetInfo_v2(&free, &total);
    if (code || size > free)
        return code ? code : OUT_OF_MEMORY;
    used[by_speed[current]] += size;
    *place = next;
    next += size;
    return SUCCESS;
}
