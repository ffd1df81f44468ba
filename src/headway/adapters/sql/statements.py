"""Statements, compiled once per dialect and then only fed with values.

The writer's rate is that of the driver: SQLAlchemy builds the SQL, and stays out of the way of the
rows. Every link (`links/`) runs these statements on its driver.
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
    """Something changed between the decision and its write; the batch must be decided again."""


def integer_param(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


def text_param(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.String())


class in_list(sa.ColumnElement[bool]):  # noqa: N801  # Reads as an operator, like sa.and_.
    """`column IN (…)` with one parameter for the whole list, so that its SQL never changes."""

    inherit_cache = False
    type = sa.Boolean()
    # Else SQLAlchemy writes `(…) = 1` where a database has no booleans, and no index is used.
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


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT whose parameters are named."""

    select: sa.Select[Any] | sa.CompoundSelect[Any]
    orders_locks: bool = False
    """Its order only says in which order rows are locked: of no use where none are."""
    mysql_select: sa.Select[Any] | None = None
    """The same question, put so that MariaDB and MySQL answer it from an index."""

    def __hash__(self) -> int:
        return id(self.select)


@dataclass(frozen=True, slots=True)
class Insert:
    """One row for each tuple of values, in the order of `columns`."""

    table: sa.Table
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """For each tuple of values: set the first columns where the guards hold.

    The guards are equalities on columns that are never NULL. How many rows matched is the proof
    that nothing had changed since the decision was taken.
    """

    table: sa.Table
    sets: tuple[str, ...]
    guards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    table: sa.Table
    guards: tuple[str, ...]
    is_upper_bound: bool = False
    """Remove all rows *up to* the value of the one guard, not those equal to it."""


Write = Insert | Update | Delete


class PlannedWrite(NamedTuple):
    statement: Write
    rows: Sequence[Row]
    is_guarded: bool = True
    """All rows must match, or something has changed since they were loaded."""

    def check_count(self, count: int) -> None:
        """How many rows it matched; GuardFailed if that is not all of them."""
        if self.is_guarded and count != len(self.rows):
            raise GuardFailed(self.statement)


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    sql: str
    names: tuple[str, ...]
    constants: Mapping[str, Any]

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
    # SQLAlchemy binds some constants of its own, such as the OFFSET 0 of a LIMIT on SQLite.
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    return CompiledQuery(str(compiled), tuple(compiled.positiontup or ()), constants)


@lru_cache(maxsize=512)
def compile_write(write: Write, dialect: Dialect) -> str:
    """SQL with one positional parameter per value, for drivers that take many rows one by one."""
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
