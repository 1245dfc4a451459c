# stp_embed(TARGET FILE SYMBOL) - the text of FILE as `const char SYMBOL[]`,
# terminated by NUL, compiled into TARGET.  The C code that uses it declares
# `extern const char SYMBOL[];`.  Run as a script (cmake -P), writes that C file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${FROM} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){16})" "\\1\n" bytes "${bytes}")
  file(WRITE ${TO} "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {\n${bytes}0};\n")
  return()
endif()

set(STP_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(stp_embed target file symbol)
  set(from ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set(to ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  add_custom_command(OUTPUT ${to}
    COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${to} -DSYMBOL=${symbol}
      -P ${STP_EMBED_SCRIPT}
    DEPENDS ${from} ${STP_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${to})
endfunction()
