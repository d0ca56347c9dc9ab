/* Prints CPUs by the files of a folder in place of the system's: print_cpus AMONG TEXT... lists the
 * CPUs of each text, of the first AMONG ones. print_cpus AMONG prints how many the quota leaves. */
#include "runtime.c"

int main(int count, char **arguments) {
    unsigned char set[CPU_SET_BYTES] = {0};
    int among = count > 1 ? atoi(arguments[1]) : 0;
    for (int cpu = 0; cpu < among; ++cpu) set[cpu / 8] |= (unsigned char)(1u << cpu % 8);
    if (count == 2) printf("%d\n", (int)read_quota(among));
    for (int i = 2; i < count; ++i) {
        cpu_list list;
        if (!select_cpus(arguments[i], set, sizeof set, &list)) return 1;
        for (int32_t j = 0; j < list.count; ++j)
            printf("%s%d", j ? " " : "", (int)list.numbers[j]);
        puts("");
    }
    return 0;
}
