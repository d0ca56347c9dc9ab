/* Prints which of the named features the runtime finds on this processor. */
#include "runtime.c"

int main(int count, char **arguments) {
    for (int i = 1; i < count; ++i)
        if (has_feature(arguments[i])) puts(arguments[i]);
    return 0;
}
