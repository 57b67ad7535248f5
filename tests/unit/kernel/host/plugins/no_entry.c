/* A shared object that is no plug-in. */
int first(void);
int second(void);
int first(void) {
  return 1;
}
int second(void) {
  return 2;
}
