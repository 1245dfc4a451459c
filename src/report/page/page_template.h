/*
 * page_template.h - fills an HTML template from JSON
 *
 * Tags of a template, a subset of Mustache:
 *   {{name}}    the string or number as text, which is never markup; the
 *               object of a choice as "ring/ll128/16"
 *   {{name:2}}  the number with two decimals; {{name:+2}} always with a sign;
 *               {{name:2%}} in percent
 *   {{name:size}}  bytes such as "2M"
 *   {{name:interval}}  a gain's "0.993 to 1.012", by name_low and name_high, or
 *               "one round"
 *   {{+name:size}}  the number and the noun: "1 size", "2 sizes"
 *   {{&name}}   the string as it is: markup, style or script; the object as
 * JSON within a script, which no "</script>" in a string may end
 *   {{#name}}...{{/name}}  once for each element of a list, or else once if the
 *               value is there; names are looked up in the element or value
 * first
 *   {{?name}}...{{/name}}  once if the value is there
 *   {{^name}}...{{/name}}  once if it is not: absent, null, false or an empty
 * list Names are looked up from the innermost object outwards.
 */
#ifndef STP_PAGE_TEMPLATE_H
#define STP_PAGE_TEMPLATE_H

#include <stdio.h>

#include <cjson/cJSON.h>

/* Writes the filled template to 'fp'.  Absent names leave nothing.  The
 * template is part of the program: its tags must be complete. */
void stp_page_fill(const char *html, const cJSON *values, FILE *fp);

#endif /* STP_PAGE_TEMPLATE_H */
