"""The templates of tests/golden/jinja.json, one feature each, and their variables (make_chat_goldens.py renders them)."""
V = {
    "n": 7, "f": 2.5, "s": "Hello, World", "e": "", "t": True, "nul": None, "u": "Grüße 日本 🙂",
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, "x'y", None, True, 1.5], "C": {"k": "v\n\"q\""}},
    "rows": [{"name": "x", "type": "text", "text": "one", "n": 2}, {"name": "y", "type": "image", "n": 1},
             {"name": "z", "type": "text", "text": "two", "n": 3, "sub": {"k": [5, 6]}}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <b> & 'you'"},
                 {"role": "assistant", "content": " ok \n"}],
}

EXPRESSIONS = """
1 + 2 * 3 - 4
7 // 2, 7 % 3, -7 // 2, -7 % 3, 7 / 2, 2 ** 10, 2 ** -1, -2 ** 2
7.5 // 2, -7.5 % 2, 1e3, 1.5e-7, 1e16, 1e15, 123456789.125, 0.1 + 0.2, -3e10, 1e100, 5e-324, 100.0
10 // 0
1 % 0
9223372036854775807
-9223372036854775807 - 1
0x1F + 0b101 + 0o17 + 1_000
n is odd, n is even, n is divisibleby 7, n is divisibleby(3)
true, false, none, True, False, None
not true or true and false
not n == 7
n == 7.0, 1 == true, 'a' == 'a', none == false, l == [3, 1, 2], (1, 2) == [1, 2], d == d, missing == missing2
1 < 2 < 3, 1 < 2 > 3, 'a' < 'b', [1, 2] < [1, 3]
1 < 'a'
'lo' in s, 'x' not in s, 3 in l, 'b' in d, 'b' in missing, 5 not in l
3 in s
s ~ n ~ f ~ t ~ nul ~ missing ~ l
s + 1
s + missing
missing + s
'a' 'b' "c"
'\\n|\\t|\\\\|\\'|\\"|\\x41|\\u00e9|\\U0001F642|\\101|\\q|\\0'
"it's" + 'say "hi"'
s[0], s[-1], s[1:4], s[::-1], s[:-3], s[7:], s[::2], s[-5:-1], u[6:8], u[::-1], s[100:], s[5:2]
l[0], l[-1], l[1:], l[:2], l[::-1], l[5] is undefined, l[-9] is undefined
l['x'] is undefined, s['x'] is undefined, n.x is undefined, n[0] is undefined
l[::0]
(1, 2, 3)[1:], [1, 2][0], (1,), ()
d.b, d['b'], d.a[1], d['C'].k, d.missing is undefined, d.C['k'] | length, d.get('b'), d.get('zz'), d.get('zz', 5)
d.items() | list, d.keys() | list, d.values() | list
d, l, (1, 'a'), {'x': none, 1: 2.0, none: true}, ['it\\'s', "q\\"q", 'b"\\'b', '\\n\\t\\\\\\x00\\x7f é 🙂\\u200b\\u00a0'], [missing]
[1.0, 1e22, 1.5e300, 1e-5, 0.0001]
range(3) | list, range(1, 7, 2) | list, range(5, 0, -2) | list, range(3)[1], range(3) | length, range(4)
range(1000000)
range(0)
missing
missing.x
missing[0]
missing()
d.missing.x
missing | length, missing | list, missing | join, missing | default('D'), missing | string | length
missing is defined, missing is undefined, missing is none, n is defined, not missing, missing or 'x', missing if missing else 'y'
'a' if n == 7 else 'b', 'a' if n == 8, ('a' if n == 8) is undefined
'x' if n > 5 and n < 10 else 'y' if n > 3 else 'z'
n is number, f is number, t is number, n is integer, t is integer, f is float, t is boolean, s is string, n is string
d is mapping, l is mapping, l is sequence, d is sequence, s is sequence, n is sequence, missing is sequence, l is iterable, s is iterable, n is iterable, missing is iterable
nul is none, t is true, t is false, false is false, n is true
'A' is upper, 'a' is lower, 'Ab' is upper, 'a1' is lower, '1' is lower
n is eq 7, n is equalto 8, n is ne 8, n is gt 3, n is ge 7, n is lt 3, n is le 7, n is greaterthan 1, n is lessthan 1, 1 is in l, 'q' is in s
n is not string, n is not defined, missing is not defined
raise_exception is callable, s is callable, namespace is callable
n is sameas 7, nul is sameas none
s | upper, s | lower, s | title, 'hELLO wORLD-foo (bar)' | title, 'hELLO' | capitalize, s | length, u | length, l | length, d | length
'ǆ ß éÉ' | upper, 'ÀÉÎ' | lower
'  x y \\n' | trim, '--x--' | trim('-'), 5 | trim, '  x ' | trim | length
s.strip('Hd'), '  a b '.strip(), ' a '.lstrip(), ' a '.rstrip(), 'xxaxx'.lstrip('x'), 'xxaxx'.rstrip('x'), '\\u3000\\u00a0a\\u2003'.strip(), '\\u200ba'.strip() | length
s.split(', '), s.split(',')[-1], ' a  b c '.split(), 'a,b,c'.split(',', 1), 'a,b,c'.rsplit(',', 1), ' a  b  c'.split(none, 1), ''.split(), ''.split(','), 'a  b  c '.rsplit(none, 1)
'a\\nb\\r\\nc\\n'.splitlines(), 'a\\nb'.splitlines(true), ''.splitlines()
s.startswith('Hell'), s.endswith('ld'), s.startswith(('x', 'H')), s.startswith('W', 7), s.endswith('')
s.replace('l', 'L'), s.replace('l', 'L', 1), 'aaa'.replace('', '-'), s | replace('o', '0'), s | replace('l', 'L', 2), 5 | replace('5', 'x')
s.find('o'), s.rfind('o'), s.find('zz'), s.index('W'), u.find('日'), s.count('l'), s.find('o', 5), 'aaaa'.count('aa'), 'abc'.count('')
s.index('zz')
', '.join(['a', 'b']), '-'.join('abc')
','.join([1, 2])
s.upper(), s.lower(), s.title(), "they're bill's".title(), s.swapcase(), s.capitalize(), 'abc'.isalpha(), '12'.isdigit(), ''.isdigit(), 'a1'.isalnum(), ' '.isspace(), 'AB'.isupper(), 'ab'.islower(), 'a b'.islower()
'abc'.center(8, '*'), 'abc'.center(7) ~ '|', 'ab'.center(5, '-'), 'ab'.ljust(4) ~ '|', 'ab'.rjust(4), '42'.zfill(5), '-42'.zfill(5), 'k=v=w'.partition('='), 'k=v=w'.rpartition('='), 'k'.partition('='), 'k'.rpartition('=')
'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py')
'{} {}'.format(1, 'a'), '{1}{0}'.format('a', 'b'), '{x:>5}|{x:<5}|{x:^5}'.format(x='ab'), '{:05d}|{:+d}|{:,}|{:x}|{:.2f}|{:8.3f}|{:e}|{:%}'.format(42, 3, 1234567, 255, 3.14159, 2.5, 12345.678, 0.25), '{{}}'.format(), '{0[a]} {0[b]}'.format({'a': 1, 'b': [2]}), '{!r}'.format('a')
'{} {}'.format(1)
'%s is %d and %.2f %5s|%-5s|%05d %x %% %r' % ('a', 3, 1.5, 'b', 'c', 42, 255, 'q'), '%s' % 'x', '%(a)s' % {'a': 1}, '%s' % [1, 2]
'%s %s' % 'a'
'%s' % (1, 2)
'%d' % 'a'
'%s-%s' | format('a', 1), '%(x)s' | format(x=5)
l | first, l | last, l | min, l | max, l | sum, l | sort, l | sort(reverse=true), words | sort, words | sort(case_sensitive=true), l | reverse | list, s | reverse
rows | sum(attribute='n'), rows | map(attribute='n') | max, rows | sort(attribute='n') | map(attribute='name') | list, rows | min(attribute='n')
rows | map(attribute='sub.k.1', default='-') | list, rows | map(attribute='text') | list | length
words | map('upper') | list, words | map('replace', 'a', 'Q') | join(','), rows | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('|')
rows | selectattr('text') | list | length, rows | selectattr('text', 'defined') | list | length, rows | rejectattr('type', 'eq', 'text') | map(attribute='name') | list, rows | rejectattr('text', 'defined') | list | length
l | select('odd') | list, l | reject('odd') | list, l | select | list, [0, 1, ''] | select | list, l | select('gt', 1) | list
rows | selectattr('type', 'in', ['image', 'video']) | list
none | select('odd') | list, 0 | map('upper') | list, nul | selectattr('x') | list, false | rejectattr('x') | list
l | select('odd') | length
(l | select('odd'))[0] is undefined, (l | select('odd')) is iterable, (l | map('string') | first)
['a', 'B', 'b', 'A', 'a'] | unique | list, ['a', 'B', 'b'] | unique(case_sensitive=true) | list, rows | unique(attribute='type') | map(attribute='name') | list
rows | groupby('type')
rows | groupby('type') | map('first') | list
l | join, l | join(', '), words | join('-'), rows | join(', ', attribute='name'), 'abc' | join('.')
d | dictsort, d | dictsort(true), {'b': 1, 'a': 2} | dictsort(by='value'), {'b': 1, 'a': 2} | dictsort(reverse=true), {'b': 1, 'a': 2} | dictsort(false, 'value')
d | items | list, missing | items | list
[1, 2, 3, 4, 5] | batch(2) | list, [1, 2, 3] | batch(2, 0) | list, [1, 2, 3, 4, 5] | slice(2) | list, [1, 2, 3, 4, 5] | slice(3, 'x') | list
'42' | int, '4.7' | int, 'x' | int, 'x' | int(5), 3.9 | int, -3.9 | int, true | int, '0x1A' | int(0, 16), 'ff' | int(base=16), ' 12 ' | int, none | int, '1_000' | int, '' | int(-1)
'2.5' | float, 'x' | float, 'x' | float(1.5), 3 | float, '1e3' | float, none | float
2.5 | round, 3.5 | round, 2.675 | round(2), 42.55 | round(1, 'floor'), 42.51 | round(1, 'ceil'), 42 | round, 1234.5 | round(-2), 7 | round(1, 'ceil')
-5 | abs, 5.5 | abs, -5.5 | abs
missing | default('x'), e | default('x'), e | default('x', true), none | default('x'), none | default('x', boolean=true), missing | d(1)
s | string, n | string ~ 'x', none | string, l | string
'<a href="x">\\'&\\'</a>' | e, '<' | escape, '<' | safe, ('<' | safe) + '<', '<' + ('&' | safe), ('<' | safe) ~ '<', ('<b>' | safe) | length, '<' | forceescape, ('a' | safe) * 2
'a\\nb\\n\\nc' | indent, 'a\\nb' | indent(2, true), 'a\\n\\nb' | indent(2, blank=true), 'a\\nb' | indent('> '), 'a\\n' | indent
'one two three four' | truncate(9), 'one two three four' | truncate(9, true), 'one two' | truncate(5), 'one two three' | truncate(10, false, '!', 0)
'one two, three' | wordcount, 'ab' | center(6) ~ '|'
d | tojson
rows | tojson(indent=2)
d | tojson(indent=4, sort_keys=true)
[] | tojson(indent=2), {} | tojson(indent=2), {'a': []} | tojson(indent=1), [1, [2]] | tojson(indent=0)
u | tojson, u | tojson(ensure_ascii=true), '</script>&\\u2028\\x7f\\x01\\b\\f' | tojson, '\\x7f' | tojson(ensure_ascii=true)
[1, 2.0, -3e10, 1e100, true, none, 'a"b\\\\'] | tojson, {1: 2, true: 3, none: 4, 1.5: 5} | tojson, (1, 2) | tojson, [1, {'a': 2}] | tojson(separators=(',', ':'))
missing | tojson
s.upper | tojson
range(3) | tojson
(l | map('string')) | tojson
strftime_now('%d %b %Y'), strftime_now('%Y-%m-%d'), strftime_now('%B %d, %Y'), strftime_now('%H:%M:%S %A %j')
raise_exception('stop here')
dict(a=1, b=2), dict([('x', 1)]), dict({'a': 1}, b=2)
namespace(a=1).a, namespace().x is undefined
l.append(4)
d.update({})
d.pop('a')
s.__class__
s.__class__()
d.__len__ is undefined
d | attr('b') is undefined
s.nosuch()
nul.x is undefined, nul.x
nul.x.y
l(1)
n()
[1, 2] + [3], (1,) + (2,), [0] * 3, 'ab' * 2, 2 * 'ab', 'ab' * -1
[1] + (2,)
-s
+5, -f, - -3
-n | abs, -n ** 2
{'a': {'b': [1, {'c': 2}]}}.a.b[1].c
messages[0].role, messages[0]['content'], messages[-1].content | trim, messages | length
messages | map(attribute='content') | join('\\n')
messages | selectattr('role', 'ne', 'system') | list | length
(messages | last).role, (messages | first)['role']
[1, 2, 3] | map('nosuch') | list
1 if false else (2 if false else 3)
1, 2
(1, 2) | join, (1)
l.index(1), l.count(3), (1, 2).index(2), l.index(99)
f.is_integer(), 2.0.is_integer()
'a.b'.split('.') | last, ('a' ~ 1) | upper, n ~ 1 | string
s | upper | lower | title | replace('o', 'e') | length
u.upper(), u.lower(), u.split(' ')[1], u[0], u[-1], u | list
['a'] | tojson ~ 'x', not 'a' in ['a']
loop is undefined
[[1, 2], [3, 4]] | map('first') | list, [[1, 2], [3]] | map('length') | list, [[1, 2], [3]] | sum(start=[])
l is sameas l, 'x' is filter, 'upper' is filter, 'defined' is test
{'a': 1}['a'], {'a': 1}.a, {'items': 5}['items'], {'get': 1}['get']
true + 1, true and 5, 0 or 'x', '' or none, 'a' and 'b'
""".strip("\n").split("\n")

STATEMENTS = [
    "{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %}",
    "{% if missing %}a{% endif %}b{% if not missing %}c{% endif %}",
    "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in 'añb' %}{{ c }}.{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for x in nul %}x{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }}{{ loop.last }} {% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}{{ loop.last }}{{ loop.previtem }} {% endfor %}",
    "{% for x in l if x > 9 %}x{% else %}none{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ x * y }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}|{% for x in l %}{% break %}{% else %}none{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}",
    "{% for n in [[1, [2, 3]], 4] recursive %}{% if n is iterable %}[{{ loop(n) }}]{% else %}{{ n }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% break %}",
    "{% for x in l %}{{ x }}{% endfor %}{{ x }}|{{ loop }}",
    "{% set a = 1 %}{% for x in l %}{% set a = a + x %}{{ a }} {% endfor %}{{ a }}",
    "{% set ns = namespace(total=0) %}{% for x in l %}{% set ns.total = ns.total + x %}{% endfor %}{{ ns.total }}",
    "{% set ns = namespace() %}{% set ns.a = [1] %}{% set ns.b = ns.a + [2] %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set d.x = 1 %}",
    "{% set ns = namespace(_a=1) %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a, b = [1] %}",
    "{% if t %}{% set a = 5 %}{% endif %}{{ a }}",
    "{% set a %}x{{ n }}y\n{% endset %}[{{ a }}]{{ a | length }}",
    "{% set a | upper | replace('X', 'z') %}x{{ n }}y{% endset %}{{ a }}",
    "{% set a %}{% set inner = 3 %}{{ inner }}{% endset %}{{ a }}{{ inner }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='y') }} {{ m(b=5, a=4) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{{ m(1) }}{% macro m(x) %}{{ x }}{% endmacro %}",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m(a) %}  {{ a }}\n{% endmacro %}[{{ m('x') }}][{{ m('x') | trim }}]",
    "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('a') %}in {{ n }}{% endcall %}",
    "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i) each(l) %}{{ i }}:{{ x }} {% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m is callable }}{{ m(1) is string }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}banana{% endfilter %}",
    "{% filter trim %}  x  {% endfilter %}|",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set q = 3 %}{{ q }}{% endwith %}{{ q }}",
    "{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%}  |",
    "a {# comment {{ x }} #} b {#- c -#} d\n{# e #}\nf",
    "{% generation %}gen {{ n }}{% endgeneration %} out",
    "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}",
    "{% print n, 1 %}",
    # white space
    "  {% if t %}\n  a\n  {% endif %}\n  b\n",
    "  {%- if t -%}\n  a\n  {%- endif -%}\n  b\n",
    "x  {%+ if t %}\n a{% endif %}\n\n\nb",
    "  {%+ if t +%}\n a\n  {%+ endif %}\nb",
    "{{ n }}\n\n{{- n }}\n  {{ n -}}  \n x",
    "a\n  {{ n }}\n  {# c #}\nb\n\n",
    "a\n\t {% set x = 1 %} \n b",
    "text {% set x = 1 %}\n more",
    "{% for x in l %}\n  {{ x }}\n{% endfor %}\nend",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\nend",
    "line\r\nnext\rlast\r\n",
    "\n{% if t %}\n\n x{% endif %}",
    "\u00a0 {% if t %}nbsp{% endif %}",
    "{{ '{{' }}{{ '%}' }}{{ \"}}\" }}{{ {'a': {'b': 1}}['a'] }}",
    "{{-1}}{{ - 1 }}{{+1}}",
    "{{ n }}{%- if t %} x{%- endif %}",
    "{ not a tag } {x} { {n} } %} }} #}",
    # errors
    "{{ 1 + }}", "{{ (1 }}", "{% if %}x{% endif %}", "{% for x l %}{% endfor %}", "{% endif %}", "{% if t %}", "{{ x", "{% set x", "{# never closed",
    "{% raw %} never closed", "{{ 'abc }}", "{% nosuch %}", "{{ x | nosuch }}", "{{ x is nosuch }}", "{% if false %}{{ x | nosuch }}{% endif %}ok",
    "{{ 'a' if true else (x | nosuch) }}", "{{ a b }}", "{{ a..b }}", "{{ ] }}", "{% macro %}{% endmacro %}", "{% set 1 = 2 %}", "{{ @ }}", "{{ 1.x }}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{% call 5 %}{% endcall %}", "{% else %}", "{{ n is string is defined }}", "{{ n not 5 }}",
    # pieces out of real templates
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set sys = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% endif %}{% for m in loop_messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}[{{ m['content'] | trim }}]{% endfor %}",
    "{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{{ i }}{{ m.role[0] }}{% endfor %}",
    "{%- macro render(v) -%}{%- if v is mapping -%}{ {%- for k, x in v | dictsort -%}{{ k }}: {{ render(x) }}{{ ',' if not loop.last }}{%- endfor -%} }{%- elif v is string -%}\"{{ v }}\"{%- elif v is iterable -%}[{%- for x in v -%}{{ render(x) }}{{ ',' if not loop.last }}{%- endfor -%}]{%- else -%}{{ v }}{%- endif -%}{%- endmacro -%}{{ render(d) }}",
    "{%- set ns = namespace(found=false, n=0) -%}{%- for m in messages -%}{%- if m.role == 'user' and not ns.found -%}{%- set ns.found = true -%}{%- set ns.n = loop.index0 -%}{%- endif -%}{%- endfor -%}{{ ns.n }}{{ ns.found }}",
    "{% if messages[0].content is string %}{% set c = messages[0].content %}{% else %}{% set c = '' %}{% endif %}{{ c }}{{ messages[1].content.split('<b>')[-1].lstrip() }}",
    "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') ~ messages[2]['content'].rstrip('\\n').split('<think>')[0] }}",
    "{% for t in tools | default([]) %}{{ t | tojson }}{% endfor %}{% if tools is defined and tools is not none %}T{% endif %}",
    "{% set tools = none %}{% if not tools %}no{% endif %}{{ tools is none }}",
]
