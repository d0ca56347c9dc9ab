/* cpus.c: the CPUs that threads may use, and the binding of threads to them. Part of runtime.c. */

/* Where /sys and /proc are; tests name another folder. */
#ifndef TVMCONV_ROOT
#define TVMCONV_ROOT ""
#endif

/* 64 KB hold half a million CPUs; the kernel refuses a set that is smaller than its own */
enum { CPU_SET_BYTES = 1 << 13 };

typedef struct {
    int32_t count;
    int32_t numbers[MOST_THREADS];
} cpu_list;

static FILE *open_system(const char *path) {
    char whole[768];
    int length = snprintf(whole, sizeof whole, "%s%s", TVMCONV_ROOT, path);
    return length < (int)sizeof whole ? fopen(whole, "re") : NULL;
}

/* The first number of a file, or 0. */
static int64_t read_number(const char *path) {
    long long number = 0;
    FILE *file = open_system(path);
    if (file == NULL) return 0;
    if (fscanf(file, "%lld", &number) != 1) number = 0;
    fclose(file);
    return number;
}

/* ---- How many ---- */

static int64_t least_quota(int64_t least, long long quota, long long period) {
    if (quota <= 0 || period <= 0) return least;
    quota = (quota + period - 1) / period;
    return quota < least ? quota : least;
}

/* The smallest quota of a control group and of the groups around it. A container may see the name
 * of its group on the host, whose folder it does not have; its own group is then the root. */
static int64_t group_quota(const char *hierarchy, char *group, int64_t least) {
    char path[640];
    for (;;) {
        long long quota = 0, period = 0;
        snprintf(path, sizeof path, "%s%s/cpu.max", hierarchy, group);
        FILE *file = open_system(path);
        if (file) {
            if (fscanf(file, "%lld %lld", &quota, &period) == 2)
                least = least_quota(least, quota, period);
            fclose(file);
        }
        snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", hierarchy, group);
        quota = read_number(path);
        snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", hierarchy, group);
        if (quota > 0) least = least_quota(least, quota, read_number(path));
        char *last = strrchr(group, '/');
        if (last == NULL) return least;
        *last = '\0';
    }
}

/* CPUs by the quota of the process's control groups, of version 2 and of version 1. */
static int64_t read_quota(int64_t unlimited) {
    char line[512], root[] = "";
    int64_t least = group_quota("/sys/fs/cgroup", root, unlimited);
    least = group_quota("/sys/fs/cgroup/cpu", root, least);
    FILE *file = open_system("/proc/self/cgroup");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:group */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers;
        if (group) group = strchr(controllers + 1, ':');
        if (group == NULL) continue;
        *group++ = '\0';
        if (controllers[1] == '\0') least = group_quota("/sys/fs/cgroup", group, least);
        char *rest = NULL; /* strtok's own would be shared by threads */
        for (char *name = strtok_r(controllers + 1, ",", &rest); name;
             name = strtok_r(NULL, ",", &rest))
            if (!strcmp(name, "cpu")) least = group_quota("/sys/fs/cgroup/cpu", group, least);
    }
    if (file) fclose(file);
    return least;
}

/* The number in TVMCONV_NUM_THREADS; 0 where it is not set, -1 where it is not a number from 1. */
static int64_t threads_variable(void) {
    const char *text = getenv("TVMCONV_NUM_THREADS");
    if (text == NULL || *text == '\0') return 0;
    char *end;
    long limit = strtol(text, &end, 10);
    return end == text || *end != '\0' || limit < 1 ? -1 : limit;
}

/* The CPUs of the calling thread's affinity; returns the bytes of the set, 0 if it is unknown. */
static long read_affinity(unsigned char *set) {
#ifdef __linux__
    long bytes = syscall(SYS_sched_getaffinity, 0, (size_t)CPU_SET_BYTES, set);
    return bytes < 0 ? 0 : bytes;
#else
    (void)set;
    return 0;
#endif
}

/* How many threads can run at a time: affinity, control group, TVMCONV_NUM_THREADS
 * or, without it, TVM_NUM_THREADS. */
static int32_t allowed_cpus(void) {
    int64_t allowed = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned char set[CPU_SET_BYTES];
    long bytes = read_affinity(set);
    if (bytes > 0) allowed = 0;
    for (long i = 0; i < bytes; ++i) allowed += __builtin_popcount(set[i]);
    int64_t quota = read_quota(allowed);
    if (quota < allowed) allowed = quota;
    int64_t limit = threads_variable();
    const char *text = limit ? NULL : getenv("TVM_NUM_THREADS");
    if (text) limit = strtol(text, NULL, 10);
    if (limit > 0 && limit < allowed) allowed = limit;
    return allowed < 1 ? 1 : allowed > MOST_THREADS ? MOST_THREADS : (int32_t)allowed;
}

/* ---- Which ---- */

/* Adds the CPUs of a text such as 0-3,8; returns 0 if it is not such a text. */
static int add_cpus(cpu_list *list, const char *text) {
    while (*text >= '0' && *text <= '9') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9') return 0;
            last = strtol(end + 1, &end, 10);
        }
        if (last < first || last >= 8l * CPU_SET_BYTES) return 0;
        for (long cpu = first; cpu <= last && list->count < MOST_THREADS; ++cpu)
            list->numbers[list->count++] = (int32_t)cpu;
        if (*end == '\0' || *end == '\n') return 1;
        if (*end != ',') return 0;
        text = end + 1;
    }
    return 0;
}

/* Adds the CPUs that a file lists; returns 0 where there is none. */
static int add_file(cpu_list *list, const char *path) {
    char text[4096] = "";
    FILE *file = open_system(path);
    if (file == NULL) return 0;
    int found = fgets(text, sizeof text, file) != NULL && add_cpus(list, text);
    fclose(file);
    return found;
}

/* Keeps the CPUs in `set`, each once. */
static void keep_allowed(cpu_list *list, const unsigned char *set, long bytes) {
    unsigned char left[CPU_SET_BYTES];
    int32_t count = 0;
    memcpy(left, set, (size_t)bytes);
    for (int32_t i = 0; i < list->count; ++i) {
        int32_t cpu = list->numbers[i];
        if (cpu / 8 >= bytes || !(left[cpu / 8] >> cpu % 8 & 1)) continue;
        left[cpu / 8] &= (unsigned char)~(1u << cpu % 8);
        list->numbers[count++] = cpu;
    }
    list->count = count;
}

/* Keeps the CPUs of performance cores, where the system knows several kinds of cores: Intel's by
 * their kind, others by their capacity. */
static void keep_fast(cpu_list *list) {
    char path[96];
    cpu_list fast = {0};
    int64_t capacity[MOST_THREADS], least = 0;
    if (add_file(&fast, "/sys/devices/cpu_core/cpus")) {
        *list = fast;
        return;
    }
    for (int32_t i = 0; i < list->count; ++i) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity",
                 (int)list->numbers[i]);
        capacity[i] = read_number(path);
        if (i == 0 || capacity[i] < least) least = capacity[i];
    }
    /* equal cores differ by some percent where their clocks do */
    for (int32_t i = 0; i < list->count; ++i)
        if (4 * capacity[i] > 5 * least) fast.numbers[fast.count++] = list->numbers[i];
    if (fast.count) *list = fast;
}

/* Orders CPUs so that the second hardware threads of cores follow the first ones of all cores. */
static void order_cores_first(cpu_list *list) {
    char path[96];
    cpu_list ordered = {0};
    int32_t rank[MOST_THREADS], last = 0;
    for (int32_t i = 0; i < list->count; ++i) {
        cpu_list core = {0};
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 (int)list->numbers[i]);
        add_file(&core, path);
        rank[i] = 0;
        for (int32_t j = 0; j < i; ++j)
            for (int32_t k = 0; k < core.count; ++k) rank[i] += list->numbers[j] == core.numbers[k];
        if (rank[i] > last) last = rank[i];
    }
    for (int32_t r = 0; r <= last; ++r)
        for (int32_t i = 0; i < list->count; ++i)
            if (rank[i] == r) ordered.numbers[ordered.count++] = list->numbers[i];
    *list = ordered;
}

/* The CPUs that `text` names, of those in `set`. Returns 0 if the text has another form. */
static int select_cpus(const char *text, const unsigned char *set, long bytes, cpu_list *list) {
    char path[96], *end;
    int named = text && *text >= '0' && *text <= '9';
    list->count = 0;
    if (named) {
        if (!add_cpus(list, text)) return 0;
    } else if (text && !strncmp(text, "node:", 5)) {
        long node = strtol(text + 5, &end, 10);
        if (text[5] < '0' || text[5] > '9' || *end) return 0;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%ld/cpulist", node);
        add_file(list, path);
    } else if (text == NULL || !strcmp(text, "performance")) {
        for (int32_t cpu = 0; cpu < 8 * bytes && list->count < MOST_THREADS; ++cpu)
            if (set[cpu / 8] >> cpu % 8 & 1) list->numbers[list->count++] = cpu;
        if (text) keep_fast(list);
    } else {
        return 0;
    }
    keep_allowed(list, set, bytes);
    if (!named) order_cores_first(list);
    return 1;
}

/* As select_cpus, of the CPUs that the calling thread may use; at most as many as may run at a
 * time. */
static int find_cpus(const char *text, cpu_list *list) {
    unsigned char set[CPU_SET_BYTES];
    long bytes = read_affinity(set);
    int32_t most = allowed_cpus();
    int found = select_cpus(text, set, bytes, list);
    if (list->count > most) list->count = most;
    return found;
}

int32_t tvmconv_cpus(const char *text, int32_t *numbers, int32_t capacity) {
    cpu_list list;
    if (!find_cpus(text, &list)) return -1;
    for (int32_t i = 0; i < list.count && i < capacity && numbers; ++i) numbers[i] = list.numbers[i];
    return list.count;
}

/* Binds the calling thread, and threads that it starts, to `count` CPUs from number `first` of a
 * list, which begins again at its end. */
static void bind_thread(const cpu_list *list, int32_t first, int32_t count) {
#ifdef __linux__
    unsigned char set[CPU_SET_BYTES] = {0};
    for (int32_t i = 0; i < count; ++i) {
        int32_t cpu = list->numbers[(first + i) % list->count];
        set[cpu / 8] |= (unsigned char)(1u << cpu % 8);
    }
    syscall(SYS_sched_setaffinity, 0, sizeof set, set);
#else
    (void)list, (void)first, (void)count;
#endif
}
