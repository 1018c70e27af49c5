// The tree of a parsed template. Plain values; built by the parser, read by the interpreter, shared between renderings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace spillway::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// One argument of a call, filter or test.
struct Argument {
  enum class Kind { kPositional, kNamed, kSpread, kSpreadNamed };
  Kind kind;
  std::string name;  // of kNamed
  ExprPtr value;
};

struct Expr {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kTuple,        // children
    kList,         // children
    kDict,         // children: key, value, key, value, ...
    kNegate,       // child
    kPlus,         // child
    kNot,          // child
    kAnd,          // two children
    kOr,           // two children
    kBinary,       // op (+ - * / // % **), two children
    kConcat,       // children joined as text by ~
    kCompare,      // first child, then one child for each of `ops` (== != < <= > >= in "not in")
    kConditional,  // test, value, value otherwise (may be null)
    kAttribute,    // child . name
    kItem,         // child [ child ]
    kSlice,        // child [ child : child : child ], each bound may be null
    kCall,         // child ( arguments )
    kFilter,       // child | name ( arguments ); child is null in a filter block
    kTest,         // child is name ( arguments )
  };
  Kind kind;
  int line = 0;
  int depth = 1;  // of the tree below, bounded by the parser, so that walking it recursively is safe
  std::string name;
  std::string op;
  Value constant;
  std::vector<ExprPtr> children;
  std::vector<std::string> ops;
  std::vector<Argument> arguments;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null if the caller must give it (else it is undefined)
};

struct Stmt {
  enum class Kind {
    kText,         // text
    kOutput,       // expr
    kIf,           // branches, otherwise
    kFor,          // target in expr if test: body; otherwise
    kSet,          // target = expr
    kSetBlock,     // target = body, through the filters of expr (may be null)
    kMacro,        // text is its name; parameters, body
    kCallBlock,    // expr is the call; parameters and body make its `caller`
    kFilterBlock,  // expr is the filter chain over the body
    kWith,         // targets = exprs for body
    kGeneration,   // body
    kBreak,
    kContinue,
  };
  Kind kind;
  int line = 0;
  std::string text;
  ExprPtr expr, target, test;
  bool recursive = false;
  bool takes_varargs = false, takes_kwargs = false;  // for a macro whose body names `varargs`, `kwargs`
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;  // of kWith
  std::vector<Parameter> parameters;
  Body body, otherwise;
};

struct Template {
  Body body;
  bool marks_generation = false;  // has a {% generation %} block
};

}  // namespace spillway::text::jinja
