"""The writer's statements, compiled once per dialect and then executed with values only.

SQLAlchemy builds the SQL but does not process the rows, so the writer is as fast as its driver.
Each link (`write/links/`) executes these statements on its driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

Row = Sequence[Any]


class GuardFailed(Exception):
    """A row changed after the batch loaded it. The batch must be decided again."""


def integer_param(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


def text_param(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.String())


class in_list(sa.ColumnElement[bool]):  # noqa: N801  # Reads as an operator, like sa.and_.
    """`column IN (…)` with one parameter for the whole list, so that all lists share one SQL."""

    inherit_cache = False
    type = sa.Boolean()
    # Without this, SQLAlchemy writes `(…) = 1` for databases without booleans: no index is used.
    _is_implicitly_boolean = True

    def __init__(self, column: sa.Column[Any], name: str) -> None:
        self.column = column
        self.values_param = sa.bindparam(name, type_=sa.ARRAY(column.type))


@compiles(in_list, "sqlite")
def _in_json(element: in_list, compiler: SQLCompiler, **kw: Any) -> str:
    column = compiler.process(element.column, **kw)
    parameter = compiler.process(sa.bindparam(element.values_param.key, type_=sa.Text()), **kw)
    return f"{column} IN (SELECT value FROM json_each({parameter}))"


@compiles(in_list, "postgresql")
def _in_array(element: in_list, compiler: SQLCompiler, **kw: Any) -> str:
    column = compiler.process(element.column, **kw)
    return f"{column} = ANY ({compiler.process(element.values_param, **kw)})"


@compiles(in_list, "mysql")
@compiles(in_list, "mariadb")
def _in_tuple(element: in_list, compiler: SQLCompiler, **kw: Any) -> str:
    # The driver writes a list as `(a, b, c)`, each member escaped.
    column = compiler.process(element.column, **kw)
    parameter = compiler.process(sa.bindparam(element.values_param.key, type_=sa.Text()), **kw)
    return f"{column} IN {parameter}"


@dataclass(frozen=True, slots=True, eq=False)  # Compiled statements are found by identity.
class Query:
    """A SELECT with named parameters."""

    select: sa.Select[Any] | sa.CompoundSelect[Any]
    orders_locks: bool = False
    """True if the ORDER BY only sets the order of row locks. SQLite then does without it."""
    mysql_select: sa.Select[Any] | None = None
    """An equivalent SELECT that MariaDB and MySQL can answer from an index."""


@dataclass(frozen=True, slots=True)
class Insert:
    """An INSERT of rows. Each row is a tuple of values in the order of `columns`."""

    table: sa.Table
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """An UPDATE of the `sets` columns in each row whose `guards` columns have given values.

    A tuple of values has the values of `sets` first, then the values of `guards`. Guard columns are
    never NULL. The number of matched rows proves that no row has changed since the decision.
    """

    table: sa.Table
    sets: tuple[str, ...]
    guards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    table: sa.Table
    guards: tuple[str, ...]
    is_upper_bound: bool = False
    """If True, remove all rows up to and including the only guard's value, not just equal rows."""


Write = Insert | Update | Delete


class PlannedWrite(NamedTuple):
    statement: Write
    rows: Sequence[Row]
    is_guarded: bool = True
    """True if the link raises GuardFailed when a row has changed after it was loaded."""


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    sql: str
    names: tuple[str, ...]
    """The parameter names, in the order that a driver with positional parameters needs."""
    constants: dict[str, Any]
    """Parameters that SQLAlchemy adds, with their values."""

    def arguments(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        values = {**self.constants, **parameters} if self.constants else parameters
        return tuple([values[name] for name in self.names])


@lru_cache(maxsize=512)
def compile_query(query: Query, dialect: Dialect) -> CompiledQuery:
    select = query.select
    if query.mysql_select is not None and dialect.name == "mysql":
        select = query.mysql_select
    if query.orders_locks and dialect.name == "sqlite":
        select = select.order_by(None)
    compiled = select.compile(dialect=dialect)
    # Values that SQLAlchemy adds, such as the OFFSET 0 of a LIMIT on SQLite.
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    return CompiledQuery(str(compiled), tuple(compiled.positiontup or compiled.params), constants)


@lru_cache(maxsize=512)
def compile_write(write: Write, dialect: Dialect) -> str:
    """Return SQL with one positional parameter per value, for drivers with `executemany`."""
    quote = dialect.identifier_preparer.quote
    mark = "%s" if dialect.paramstyle == "format" else "?"
    table = quote(write.table.name)
    match write:
        case Insert(columns=columns):
            names = ", ".join(map(quote, columns))
            return f"INSERT INTO {table} ({names}) VALUES ({', '.join([mark] * len(columns))})"
        case Update(sets=sets, guards=guards):
            changes = ", ".join(f"{quote(name)} = {mark}" for name in sets)
            return f"UPDATE {table} SET {changes} WHERE {_all_equal(guards, mark, dialect)}"
        case Delete(guards=guards, is_upper_bound=True):
            return f"DELETE FROM {table} WHERE {quote(guards[0])} <= {mark}"
        case Delete(guards=guards):
            return f"DELETE FROM {table} WHERE {_all_equal(guards, mark, dialect)}"


def _all_equal(guards: tuple[str, ...], mark: str, dialect: Dialect) -> str:
    quote = dialect.identifier_preparer.quote
    return " AND ".join(f"{quote(name)} = {mark}" for name in guards)
