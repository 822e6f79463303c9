/* libnvidia-ml without a card: keeps the state of some A100-SXM4-40GB and says what NVML would say.
 *
 * Layouts and numbers: nvml.h as nvidia-ml-py 13.615 repeats it. Placements of profiles: NVIDIA
 * Multi-Instance GPU User Guide, "A100 MIG Profiles". What only a test calls begins with stand_in_. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6,
       INSUFFICIENT_SIZE, TIMEOUT = 10, GPU_IS_LOST = 15, IN_USE = 19,
       INSUFFICIENT_RESOURCES = 23, ARGUMENT_VERSION_MISMATCH = 25 };
enum { CARDS = 8, PARTS = 8, LINKS = 36, EVENTS = 16, XID = 8 };

typedef unsigned int u32;
typedef unsigned long long u64;

typedef struct { u64 total, free, used; } memory_t;
typedef struct { u32 gpu, memory; } utilization_t;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process_t;
typedef struct { u32 start, size; } placement_t;
typedef struct { void *device; u32 id, profile; placement_t placement; } instance_info_t;
typedef struct {
    u32 version, id, p2p, slices, instances, engines[6];
    u64 memory_mib;
    char name[96];
} profile_t;
typedef struct { u32 id, slices, instances, engines[6]; } compute_profile_t;
typedef struct { void *device; u64 type, data; u32 gpu_instance, compute_instance; } event_t;
typedef struct {
    u32 field, scope;
    long long timestamp, latency;
    u32 kind, code;
    union { u32 number; u64 large; double real; } value;
} field_t;

struct kind { u32 number, id, slices, instances, size; const char *name; u32 starts[8], places; };

static const struct kind kinds[] = {
    {0, 19, 1, 7, 1, "MIG 1g.5gb", {0, 1, 2, 3, 4, 5, 6}, 7},
    {1, 14, 2, 3, 2, "MIG 2g.10gb", {0, 2, 4}, 3},
    {2, 9, 3, 2, 4, "MIG 3g.20gb", {0, 4}, 2},
    {3, 5, 4, 1, 4, "MIG 4g.20gb", {0}, 1},
    {4, 0, 7, 1, 8, "MIG 7g.40gb", {0}, 1},
    {9, 15, 1, 4, 2, "MIG 1g.10gb", {0, 2, 4, 6}, 4},
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static const u32 compute_slices[] = {1, 2, 3, 4, 7};

struct card;
struct part {
    struct card *card;
    const struct kind *kind;
    u32 start, processes, serial, filled, slices;
    char compute, device;    /* their addresses are handles */
};
struct card {
    u32 there, lost, mig, mig_later, needs_reset, processes, group, action;
    u32 peer[LINKS];         /* 0: no link, 1 to 8: card, 9: switch */
    struct part parts[PARTS];
};

static struct card cards[CARDS];
static event_t events[EVENTS];
static u32 begun, serial, waiting, denied, failing, seen, ended;

static struct card *card_of(void *handle) {
    struct card *card = handle;
    return card >= cards && card < cards + CARDS ? card : NULL;
}

static struct part *part_of(void *handle) {
    for (int c = 0; c < CARDS; c++)
        for (int p = 0; p < PARTS; p++) {
            struct part *part = &cards[c].parts[p];
            if (part->kind && (handle == part || handle == &part->compute || handle == &part->device))
                return part;
        }
    return NULL;
}

static u32 overlaps(const struct part *part, u32 start, u32 size) {
    return part->kind && part->start < start + size && start < part->start + part->kind->size;
}

/* --- what a test says ------------------------------------------------------------------------- */

void stand_in_begin(u32 count, u32 mig) {
    memset(cards, 0, sizeof cards);
    begun = serial = waiting = denied = failing = ended = 0;
    for (u32 c = 0; c < count; c++) {
        cards[c].there = 1;
        cards[c].mig = cards[c].mig_later = mig;
    }
    seen = count;
}

/* A process of its own has as many cards as this variable says, in MIG mode unless the other one is set. */
__attribute__((constructor)) static void stand_in_load(void) {
    const char *count = getenv("NVML_STAND_IN_CARDS");
    if (count)
        stand_in_begin((u32)atoi(count), !getenv("NVML_STAND_IN_WHOLE"));
}

void stand_in_lose(u32 card, u32 lost) { cards[card].lost = lost; }
void stand_in_run(u32 card, u32 processes) { cards[card].processes = processes; }
void stand_in_needs_reset(u32 card) { cards[card].needs_reset = 1; }
u32 stand_in_ended(void) { return ended; }
void stand_in_deny(u32 yes) { denied = yes; }
void stand_in_fail_compute(u32 yes) { failing = yes; }
void stand_in_switch(u32 card, u32 group) { cards[card].group = group; }
void stand_in_link(u32 card, u32 link, u32 peer) { cards[card].peer[link] = peer; }
void stand_in_action(u32 card, u32 action) { cards[card].action = action; }

void stand_in_event(u32 card, u64 type, u64 data) {
    if (waiting < EVENTS)
        events[waiting++] = (event_t){&cards[card], type, data, ~0u, ~0u};
}

/* Whether there is such a part. */
u32 stand_in_run_at(u32 card, u32 start, u32 processes) {
    for (int p = 0; p < PARTS; p++)
        if (overlaps(&cards[card].parts[p], start, 1) && cards[card].parts[p].filled) {
            cards[card].parts[p].processes = processes;
            return 1;
        }
    return 0;
}

/* As an agent that died between making a part and filling it. */
void stand_in_empty(u32 card, u32 start) {
    for (int p = 0; p < PARTS; p++)
        if (overlaps(&cards[card].parts[p], start, 1))
            cards[card].parts[p].filled = 0;
}

/* As an operator who gives a part's compute slices away one by one. */
void stand_in_divide(u32 card, u32 start, u32 slices) {
    for (int p = 0; p < PARTS; p++)
        if (overlaps(&cards[card].parts[p], start, 1))
            cards[card].parts[p].slices = slices;
}

/* The serial number of the part at a memory slice; it is never given again. */
u32 stand_in_serial(u32 card, u32 start) {
    for (int p = 0; p < PARTS; p++)
        if (overlaps(&cards[card].parts[p], start, 1))
            return cards[card].parts[p].serial;
    return 0;
}

/* --- nvml.h ------------------------------------------------------------------------------------ */

#define BEGUN do { if (!begun) return UNINITIALIZED; } while (0)
#define CARD(card, handle) struct card *card = card_of(handle); \
    BEGUN; if (!card || !card->there) return INVALID_ARGUMENT; if (card->lost) return GPU_IS_LOST
#define PART(part, handle) struct part *part = part_of(handle); \
    BEGUN; if (!part) return INVALID_ARGUMENT

int nvmlInitWithFlags(u32 flags) {
    if (flags)
        return INVALID_ARGUMENT;
    seen = 0;
    for (int c = 0; c < CARDS; c++)
        seen += cards[c].there;
    begun = 1;
    return SUCCESS;
}

int nvmlShutdown(void) { BEGUN; begun = 0; ended++; return SUCCESS; }

int nvmlDeviceGetCount_v2(u32 *count) { BEGUN; *count = seen; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(u32 index, void **handle) {
    BEGUN;
    if (index >= seen)
        return INVALID_ARGUMENT;
    if (cards[index].lost)
        return GPU_IS_LOST;
    *handle = &cards[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    u32 index;
    BEGUN;
    if (sscanf(uuid, "GPU-%u", &index) != 1 || index >= seen)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

int nvmlDeviceGetUUID(void *handle, char *text, u32 length) {
    struct part *part = part_of(handle);
    if (part)
        return snprintf(text, length, "MIG-%u", part->serial), SUCCESS;
    CARD(card, handle);
    snprintf(text, length, "GPU-%u", (u32)(card - cards));
    return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *text, u32 length) {
    struct part *part = part_of(handle);
    if (part && part->slices == part->kind->slices)
        return snprintf(text, length, "NVIDIA A100-SXM4-40GB %s", part->kind->name), SUCCESS;
    if (part)
        return snprintf(text, length, "NVIDIA A100-SXM4-40GB MIG %uc.%s", part->slices,
                        part->kind->name + 4), SUCCESS;
    CARD(card, handle);
    (void)card;
    snprintf(text, length, "NVIDIA A100-SXM4-40GB");
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(void *handle, u32 *minor) {
    CARD(card, handle);
    *minor = 7 - (u32)(card - cards);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    CARD(card, handle);
    memory->total = 40ull << 30;
    memory->used = 100 + (u64)(card - cards);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *busy) {
    CARD(card, handle);
    if (card->mig)
        return NOT_SUPPORTED;
    busy->gpu = 42;
    busy->memory = 17;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
    CARD(card, handle);
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3B + (u32)(card - cards);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, u32 *now, u32 *later) {
    CARD(card, handle);
    *now = card->mig;
    *later = card->mig_later;
    return SUCCESS;
}

int nvmlDeviceSetMigMode(void *handle, u32 mode, u32 *status) {
    CARD(card, handle);
    if (denied)
        return NO_PERMISSION;
    if (card->processes)
        return IN_USE;
    card->mig_later = mode;
    if (!card->needs_reset)
        card->mig = mode;
    *status = SUCCESS;
    return SUCCESS;
}

static const struct kind *kind_numbered(u32 number) {
    for (int k = 0; k < KINDS; k++)
        if (kinds[k].number == number)
            return &kinds[k];
    return NULL;
}

static const struct kind *kind_with(u32 id) {
    for (int k = 0; k < KINDS; k++)
        if (kinds[k].id == id)
            return &kinds[k];
    return NULL;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(void *handle, u32 number, profile_t *profile) {
    const struct kind *kind = kind_numbered(number);
    CARD(card, handle);
    (void)card;
    if (profile->version != (sizeof *profile | 2 << 24))
        return ARGUMENT_VERSION_MISMATCH;
    if (number >= 18)
        return INVALID_ARGUMENT;
    if (!kind)
        return NOT_SUPPORTED;
    profile->id = kind->id;
    profile->slices = kind->slices;
    profile->instances = kind->instances;
    profile->memory_mib = 4864ull * kind->size;
    snprintf(profile->name, sizeof profile->name, "%s", kind->name);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstances(void *handle, u32 id, void **found, u32 *count) {
    CARD(card, handle);
    if (!card->mig)
        return NOT_SUPPORTED;
    *count = 0;
    for (int p = 0; p < PARTS; p++)
        if (card->parts[p].kind && card->parts[p].kind->id == id)
            found[(*count)++] = &card->parts[p];
    return SUCCESS;
}

int nvmlGpuInstanceGetInfo(void *handle, instance_info_t *info) {
    PART(part, handle);
    info->device = part->card;
    info->id = (u32)(part - part->card->parts) + 1;
    info->profile = part->kind->id;
    info->placement = (placement_t){part->start, part->kind->size};
    return SUCCESS;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(void *handle, u32 id, const placement_t *place,
                                             void **made) {
    const struct kind *kind = kind_with(id);
    struct part *free = NULL;
    CARD(card, handle);
    if (!card->mig || !kind)
        return NOT_SUPPORTED;
    if (denied)
        return NO_PERMISSION;
    u32 known = 0;
    for (u32 s = 0; s < kind->places; s++)
        known |= kind->starts[s] == place->start;
    if (!known || place->size != kind->size)
        return INVALID_ARGUMENT;
    for (int p = 0; p < PARTS; p++) {
        if (overlaps(&card->parts[p], place->start, place->size))
            return INSUFFICIENT_RESOURCES;
        if (!card->parts[p].kind)
            free = &card->parts[p];
    }
    *free = (struct part){.card = card, .kind = kind, .start = place->start, .serial = ++serial};
    *made = free;
    return SUCCESS;
}

int nvmlGpuInstanceDestroy(void *handle) {
    PART(part, handle);
    if (part->filled)
        return IN_USE;
    memset(part, 0, sizeof *part);
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(void *handle, u32 number, u32 engines,
                                                 compute_profile_t *profile) {
    PART(part, handle);
    if (number >= 5 || engines || compute_slices[number] > part->kind->slices)
        return NOT_SUPPORTED;
    profile->id = number;
    profile->slices = compute_slices[number];
    profile->instances = part->kind->slices / compute_slices[number];
    return SUCCESS;
}

int nvmlGpuInstanceCreateComputeInstance(void *handle, u32 id, void **made) {
    PART(part, handle);
    if (failing)
        return INSUFFICIENT_RESOURCES;
    if (part->filled)
        return INSUFFICIENT_RESOURCES;
    part->filled = 1;
    part->slices = compute_slices[id];
    *made = &part->compute;
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstances(void *handle, u32 id, void **found, u32 *count) {
    PART(part, handle);
    *count = part->filled && compute_slices[id] == part->slices;
    if (*count)
        found[0] = &part->compute;
    return SUCCESS;
}

int nvmlComputeInstanceDestroy(void *handle) {
    PART(part, handle);
    if (part->processes)
        return IN_USE;
    part->filled = 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, u32 *count) {
    CARD(card, handle);
    (void)card;
    *count = PARTS - 1;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, u32 index, void **device) {
    CARD(card, handle);
    if (!card->mig)
        return NOT_SUPPORTED;
    for (int p = 0; p < PARTS; p++)
        if (card->parts[p].filled && !index--) {
            *device = &card->parts[p].device;
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(void *handle, u32 *id) {
    PART(part, handle);
    *id = (u32)(part - part->card->parts) + 1;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(void *handle, u32 *id) { PART(part, handle); *id = 0; return SUCCESS; }

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, u32 *count, void *found) {
    struct part *part = part_of(handle);
    u32 running;
    if (part) {
        running = part->processes;
    } else {
        CARD(card, handle);
        running = card->processes;
    }
    u32 room = *count;
    *count = running;
    if (running > room || (running && !found))
        return INSUFFICIENT_SIZE;
    for (u32 r = 0; r < running; r++)
        ((process_t *)found)[r] = (process_t){1000 + r, r ? ~0ull : 1ull << 30, ~0u, ~0u};
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *text, u32 length) {
    BEGUN;
    snprintf(text, length, "570.86.15");
    return SUCCESS;
}

int nvmlSystemGetNVMLVersion(char *text, u32 length) {
    BEGUN;
    snprintf(text, length, "12.570.86.15");
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(void *left, void *right, u32 *level) {
    CARD(card, left);
    struct card *other = card_of(right);
    if (!other)
        return INVALID_ARGUMENT;
    *level = card->group == other->group ? 20 : 50;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *handle, u32 link, u32 *active) {
    CARD(card, handle);
    if (link >= LINKS)
        return INVALID_ARGUMENT;
    *active = card->peer[link] != 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, u32 link, u32 *type) {
    CARD(card, handle);
    *type = card->peer[link] == 9 ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, u32 link, pci_t *pci) {
    CARD(card, handle);
    if (!card->peer[link])
        return INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    pci->bus = card->peer[link] == 9 ? 0xF0 : 0x3B + card->peer[link] - 1;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(void *handle, int count, field_t *values) {
    CARD(card, handle);
    for (int v = 0; v < count; v++) {
        values[v].code = values[v].field == 230 && card->action != ~0u ? SUCCESS : NOT_SUPPORTED;
        values[v].kind = 1;
        values[v].value.number = card->action;
    }
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { BEGUN; *set = events; return SUCCESS; }
int nvmlEventSetFree(void *set) { BEGUN; return set == events ? SUCCESS : INVALID_ARGUMENT; }

int nvmlDeviceGetSupportedEventTypes(void *handle, u64 *types) {
    CARD(card, handle);
    (void)card;
    *types = XID;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(void *handle, u64 types, void *set) {
    CARD(card, handle);
    (void)card;
    return types == XID && set == events ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlEventSetWait_v2(void *set, event_t *event, u32 milliseconds) {
    BEGUN;
    if (set != events)
        return INVALID_ARGUMENT;
    if (!waiting) {
        usleep((milliseconds < 50 ? milliseconds : 50) * 1000);
        return TIMEOUT;
    }
    *event = events[0];
    memmove(events, events + 1, --waiting * sizeof *events);
    return SUCCESS;
}
