// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the SQL statements of standard input on one database, and prints the rows, for tests.

#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>

static int row(void *unused, int count, char **values, char **names) {
    (void)unused;
    (void)names;
    for (int i = 0; i < count; i++) {
        printf("%s%s", i ? "|" : "", values[i] ? values[i] : "");
    }
    putchar('\n');
    return 0;
}

int main(int argc, char **argv) {
    static char text[1 << 20];
    size_t size = fread(text, 1, sizeof text - 1, stdin);
    text[size] = 0;
    sqlite3 *db = NULL;
    char *why = NULL;
    if (argc != 2 || sqlite3_open(argv[1], &db) != SQLITE_OK) {
        fprintf(stderr, "cannot open: %s\n", db ? sqlite3_errmsg(db) : "one database, please");
        return 1;
    }
    int failed = sqlite3_exec(db, text, row, NULL, &why) != SQLITE_OK;
    if (failed) {
        fprintf(stderr, "%s\n", why);
    }
    sqlite3_close(db);
    return failed;
}
