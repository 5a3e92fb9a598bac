/*
 * Reason phrases of status codes.
 *
 *     nb_reason(404)   // "Not Found"; "" for a status that is not registered
 */
#ifndef NB_HTTP_STATUS_H
#define NB_HTTP_STATUS_H

const char *nb_reason(int status);

#endif
