/* A library that cannot be opened. */
extern int no_such_function(void);

__attribute__((visibility("default"))) int calls_it(void);

int calls_it(void)
{
    return no_such_function();
}
