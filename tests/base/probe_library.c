/* probe_library.c - a library that test_library.c looks for. */
int lh_probe(void);
int lh_probe(void)
{
    return 7;
}
